"""`servable init`: a first file that passes the checks, for a SavedModel that is not ours."""

import base64
import io
import json
import re
import shutil
from pathlib import Path

import matplotlib.image
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as some

from infra.parameters.finding import Severity
from infra.parameters.loading import ValidFile, load
from infra.preflight.check import check
from model_packaging.saved_model.reading import SignatureInfo, TensorInfo
from servable.console.extras import explain_missing_packages
from servable.init import first_request
from servable.init.command import init
from servable.init.model_folder import _choose_sizes, _estimate_least_bytes, build_golden_request
from tests.conftest import RANKER


@pytest.fixture
def begun(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (project / "cdk.json").write_text("{}")
    monkeypatch.chdir(project)
    monkeypatch.setattr(
        first_request, "explain_missing_packages", lambda: "no model runs in this test"
    )
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    return project


def run(*arguments: str) -> Result:
    told = [*arguments, "--account", "123456789012", "--region", "us-east-1"]
    return CliRunner().invoke(init, told, standalone_mode=False)


def test_the_file_that_it_writes_passes_the_checks_and_takes_arrays(begun: Path) -> None:
    assert run("model", "--name", "first").return_value == 0
    (loaded,) = load(begun, begun / "environments")
    assert [str(finding) for finding in check(loaded) if finding.severity is Severity.ERROR] == []

    run("model", "--name", "first")
    (loaded,) = load(begun, begun / "environments")
    assert isinstance(loaded, ValidFile)
    (model,) = loaded.environment.models.values()
    assert model.handler == "servable"


@pytest.mark.parametrize("given", ["model", "model/1"])
def test_code_beside_the_versions_becomes_the_models_code(begun: Path, given: str) -> None:
    (begun / "model" / "code").mkdir()
    text = "def handler(data, context):\n    return data.read(), context.accept_header\n"
    (begun / "model" / "code" / "inference.py").write_text(text)
    run(given, "--name", "first")
    (loaded,) = load(begun, begun / "environments")
    assert isinstance(loaded, ValidFile)
    (model,) = loaded.environment.models.values()
    assert (model.code, model.handler) == ("model/code", None)


@pytest.fixture
def empty(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, begun: Path
) -> Path:
    """A folder that is no project, with a model in it."""
    folder = tmp_path_factory.mktemp("empty")
    shutil.copytree(RANKER, folder / "my_model")
    monkeypatch.chdir(folder)
    return folder


def files(folder: Path) -> set[str]:
    found = {file.relative_to(folder) for file in folder.rglob("*") if file.is_file()}
    return {one.as_posix() for one in found if one.parts[0] not in ("my_model", "model", "code")}


MADE = {
    ".gitignore",
    "cdk.json",
    "environments/base.toml",
    "environments/schema.json",
    "package-lock.json",
    "package.json",
    "requirements.txt",
}


def test_in_any_folder_it_writes_what_a_project_lacks(empty: Path) -> None:
    assert run("my_model").return_value == 0
    assert files(empty) == MADE | {"environments/my-model.toml"}


def test_a_first_environment_extends_a_base_without_models_and_has_no_finding(empty: Path) -> None:
    said = json.loads(run("my_model", "--json").stdout)
    (loaded,) = load(empty, empty / "environments")
    assert isinstance(loaded, ValidFile)
    assert loaded.environment.security.network_isolation
    assert (
        [str(one) for one in check(loaded)]
        == [finding["problem"] for finding in said["findings"]]
        == []
    )


def test_a_base_of_another_model_is_not_extended(begun: Path) -> None:
    (begun / "environments" / "base.toml").write_text('[models.other]\nsaved_model = "model"\n')
    assert run("model", "--name", "first").return_value == 0
    assert "extends" not in (begun / "environments" / "first.toml").read_text()


def test_what_is_there_is_kept(empty: Path) -> None:
    (empty / "package.json").write_text("{}")
    (empty / "cdk.json").write_text('{"app": "node app.js"}')
    said = json.loads(run("my_model", "--json").stdout)
    assert (empty / "package.json").read_text() == "{}"
    assert not (empty / "package-lock.json").exists()
    assert any("cdk.json runs 'node app.js'" in note for note in said["notes"])
    assert any("package.json pins no CDK CLI" in note for note in said["notes"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--account", "12"], "account: '12' does not have the required form"),
        (["--region", "moon"], "no CPU instance type in the catalog of moon"),
        (["--name", "under_score"], "'under_score' is not a valid environment name"),
        (["--name", "base"], "'base' is not a valid environment name"),
        (["--name", "n" * 41], "is not a valid environment name"),
    ],
)
def test_what_is_refused_leaves_nothing(empty: Path, options: list[str], said: str) -> None:
    told = ["my_model", "--account", "123456789012", "--region", "us-east-1", *options]
    ran = CliRunner().invoke(init, told, standalone_mode=False)
    assert (ran.return_value, files(empty)) == (1, set())
    assert said in ran.stderr


def test_a_golden_request_that_is_there_is_never_written_over(empty: Path) -> None:
    (empty / "golden" / "my-model").mkdir(parents=True)
    (empty / "golden" / "my-model" / "request.json").write_text("mine")
    ran = run("my_model")
    assert (ran.return_value, files(empty)) == (1, {"golden/my-model/request.json"})
    assert "golden/my-model/request.json: exists already" in ran.stderr


def test_without_a_model_it_writes_what_a_project_lacks_and_no_more(empty: Path) -> None:
    shutil.rmtree(empty / "my_model")
    ran = [CliRunner().invoke(init, [], standalone_mode=False) for _ in range(2)]
    assert (files(empty), [one.return_value for one in ran]) == (MADE, [0, 0])
    assert ran[1].stdout == f"{empty}: no files are missing\n"


@pytest.fixture
def asked(begun: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose models are sent their first request in the local container."""
    monkeypatch.setattr(first_request, "explain_missing_packages", explain_missing_packages)
    return begun


def test_the_golden_request_fits_the_signature(asked: Path) -> None:
    begun = asked
    run("model", "--name", "first")
    said = json.loads((begun / "golden" / "first" / "request.json").read_text())
    assert {key: len(rows[0]) for key, rows in said["inputs"].items()} == {
        "feat_ids": 39,
        "feat_vals": 39,
    }


def test_one_saved_model_without_version_folders_gets_version_1(begun: Path) -> None:
    shutil.copytree(RANKER / "1", begun / "exported")
    assert run("exported").return_value == 0
    (loaded,) = load(begun, begun / "environments")
    assert isinstance(loaded, ValidFile)
    assert loaded.environment.models["exported"].version == 1


def test_a_file_that_is_there_is_never_written_over(begun: Path) -> None:
    (begun / "environments" / "first.toml").write_text("# mine")
    assert run("model", "--name", "first").return_value == 1
    assert (begun / "environments" / "first.toml").read_text() == "# mine"


def test_a_folder_without_a_saved_model_is_refused_with_what_to_do(begun: Path) -> None:
    ran = run("code")
    assert (ran.return_value, "has no version folder" in ran.stderr) == (1, True)

    (begun / "mine.keras").write_bytes(b"PK")
    ran = run("mine.keras")
    assert (ran.return_value, ".export('exported')" in ran.stderr) == (1, True)


def test_without_a_default_signature_requests_are_said_to_need_a_name(begun: Path) -> None:
    shutil.copytree(RANKER / "1", begun / "exported")
    file = begun / "exported" / "saved_model.pb"
    # As long as the other: lengths stand before names.
    file.write_bytes(file.read_bytes().replace(b"serving_default", b"serving_another"))
    said = json.loads(run("exported", "--json").stdout)
    assert said["signature"] in said["notes"][0]
    assert any("must name a signature" in note for note in said["notes"])


def test_a_linked_model_inside_the_project_gets_a_relative_path(
    begun: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "exported"
    shutil.copytree(RANKER / "1", elsewhere)
    (begun / "linked").symlink_to(elsewhere)
    assert run("linked", "--name", "first").return_value == 0
    (loaded,) = load(begun, begun / "environments")
    assert isinstance(loaded, ValidFile)
    (model,) = loaded.environment.models.values()
    assert model.saved_model == "linked"


@pytest.mark.parametrize(("given", "saved_model"), [("m", "models/m"), ("m/1", "models/m/1")])
def test_copy_brings_a_model_and_its_code_into_the_project(
    begun: Path, tmp_path_factory: pytest.TempPathFactory, given: str, saved_model: str
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(RANKER, elsewhere / "m")
    (elsewhere / "m" / "code").mkdir()
    (elsewhere / "m" / "code" / "inference.py").write_text(
        "def handler(data, context):\n    return data.read(), context.accept_header\n"
    )
    assert run(str(elsewhere / given), "--copy", "--name", "first").return_value == 0
    (loaded,) = load(begun, begun / "environments")
    assert isinstance(loaded, ValidFile)
    (model,) = loaded.environment.models.values()
    assert (model.saved_model, model.code) == (saved_model, "models/m/code")
    assert (begun / "models" / "m" / "1" / "saved_model.pb").is_file()


def test_a_copy_is_removed_if_nothing_is_written(begun: Path) -> None:
    shutil.copytree(RANKER, begun.parent / "m")
    (begun / "golden" / "first").mkdir(parents=True)
    (begun / "golden" / "first" / "request.json").write_text("mine")
    ran = run(str(begun.parent / "m"), "--copy", "--name", "first")
    assert (ran.return_value, (begun / "models").exists()) == (1, False)
    (begun / "models" / "m").mkdir(parents=True)
    (begun / "models" / "m" / "mine").write_text("mine")
    ran = run(str(begun.parent / "m"), "--copy")
    assert (ran.return_value, "models/m: exists already" in ran.stderr) == (1, True)
    assert (begun / "models" / "m" / "mine").read_text() == "mine"


@pytest.mark.parametrize(("rows", "written"), [(3, False), (2, True)])
def test_the_callers_request_is_written_if_the_model_answers_it(
    asked: Path, rows: int, written: bool
) -> None:
    example = {"inputs": {"feat_ids": [[0] * 39] * rows, "feat_vals": [[0.5] * 39] * 2}}
    (asked / "mine.json").write_text(json.dumps(example))
    said = json.loads(run("model", "--name", "first", "--request", "mine.json", "--json").stdout)
    golden = asked / "golden" / "first"
    files = ["golden/first/request.json", "golden/first/answer.json"]
    assert [file in said["files"] for file in files] == [written, written]
    if written:
        assert json.loads((golden / "request.json").read_text()) == example
        assert json.loads((golden / "answer.json").read_text())["outputs"]
    else:
        assert re.match(r".+\. The model rejected your request", said["notes"][0])


def test_a_path_with_any_character_becomes_a_valid_file(begun: Path) -> None:
    shutil.copytree(RANKER, begun / "m\x1b\x07\x7f\U0001f600")
    assert run("m\x1b\x07\x7f\U0001f600", "--name", "first").return_value == 0
    text = (begun / "environments" / "first.toml").read_text()
    assert not {"\x1b", "\x07", "\x7f"} & set(text)


def test_a_model_outside_of_the_project_is_said_to_be_nobody_elses(
    begun: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "exported"
    shutil.copytree(RANKER / "1", elsewhere)
    said = json.loads(run(str(elsewhere), "--json").stdout)
    assert any("outside the project" in note for note in said["notes"])


def test_it_says_how_to_prepare_the_account_of_the_file(begun: Path) -> None:
    said = run("model", "--name", "first").stdout
    assert "cdk bootstrap aws://123456789012/us-east-1" in said


def test_without_credentials_it_names_the_local_aws_which_needs_no_bootstrap(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servable.init.command._find_account", lambda _: None)
    said = CliRunner().invoke(init, ["model", "--name", "first"], standalone_mode=False).stdout
    assert 'eval "$(servable local up first)"' in said
    assert "bootstrap" not in said


def test_the_size_is_said_once(begun: Path) -> None:
    assert run("model", "--name", "first").stdout.count(" KiB") == 1


def test_every_choice_has_its_reason(begun: Path) -> None:
    said = json.loads(run("model", "--name", "first", "--json").stdout)
    assert set(said["reasons"]) == {"instance_type", "tensorflow"}


SIZES = some.none() | some.integers(1, 4)
SHAPES = some.none() | some.lists(SIZES, max_size=4).map(tuple)
DTYPES = some.sampled_from(["float32", "int64", "string", "bool", "uint8", "bfloat16"])


def shape_of(value: object) -> list[int]:
    return [len(value), *shape_of(value[0])] if isinstance(value, list) else []


def signature_of(**inputs: tuple[str, tuple[int | None, ...] | None]) -> SignatureInfo:
    specs = {
        key: TensorInfo(name=key, dtype=dtype, shape=shape)
        for key, (dtype, shape) in inputs.items()
    }
    return SignatureInfo(inputs=specs, outputs={}, method="tensorflow/serving/predict")


@pytest.mark.parametrize(
    ("shape", "note"),
    [
        ((1, 512, 512, 128, 1), "one row takes more than 5,000,000 bytes as JSON"),
        (((1 << 63) - 1,), "one row takes more than 5,000,000 bytes as JSON"),
        ((1 << 40, 0), "one row takes more than 5,000,000 bytes as JSON"),
        ((1,) * 1_000_000, "or more than 254 dimensions"),
        ((1,) * 255, "or more than 254 dimensions"),
    ],
    ids=["33 million", "2^63", "2^40 lists", "a million dimensions", "255 dimensions"],
)
@pytest.mark.parametrize("dtype", ["float32", "int64", "string"])
def test_a_shape_too_large_for_a_request_is_noted_and_nothing_is_built(
    dtype: str, shape: tuple[int, ...], note: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr("servable.init.model_folder._build_tensor")
    notes: list[str] = []
    assert build_golden_request("serving_default", signature_of(x=(dtype, shape)), notes) is None
    assert note in notes[0]


def test_the_largest_request_is_written_and_a_larger_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert build_golden_request("serving_default", signature_of(x=("int64", (1,) * 254)), [])

    monkeypatch.setattr("servable.init.model_folder.LARGEST_REQUEST_BYTES", 1_001)
    most = (1_001 + 1 - len('{"inputs":{"x":[]}}\n')) // 2
    written = [
        build_golden_request("serving_default", signature_of(x=("int64", (count,))), []) is not None
        for count in (most, most + 1)
    ]
    assert written == [True, False]


@given(some.dictionaries(some.text("ab", min_size=1), some.tuples(DTYPES, SHAPES), min_size=1))
def test_a_request_takes_at_least_the_bytes_that_are_foreseen(
    inputs: dict[str, tuple[str, tuple[int | None, ...] | None]],
) -> None:
    signature = signature_of(**inputs)
    body = build_golden_request("serving_default", signature, [])
    specs = signature.inputs.values()
    assert sum(_estimate_least_bytes(_choose_sizes(spec), spec.dtype) for spec in specs) <= len(
        body or ""
    )


def test_an_input_that_ends_in_bytes_gets_a_picture_in_base64() -> None:
    signature = signature_of(image_bytes=("string", (None,)), text=("string", (None,)))
    inputs = json.loads(build_golden_request("serving_default", signature, []) or "")["inputs"]
    picture = base64.b64decode(inputs["image_bytes"][0]["b64"], validate=True)
    assert inputs["text"] == ["text 0"]
    image = matplotlib.image.imread(io.BytesIO(picture), format="png")
    assert (image.shape, len(set(image.flat))) == ((8, 8, 3), 1)


@given(some.dictionaries(some.text("ab", min_size=1), some.tuples(DTYPES, SHAPES), min_size=1))
def test_a_request_has_the_shape_of_any_signature(inputs: dict[str, tuple[str, object]]) -> None:
    signature = signature_of(**inputs)  # type: ignore[arg-type]
    specs = signature.inputs
    body = build_golden_request("serving_default", signature, [])
    assert body is not None
    for key, value in json.loads(body)["inputs"].items():
        shape = specs[key].shape
        found = shape_of(value)
        assert len(found) == (1 if shape is None else len(shape))
        assert all(size in (None, at) for size, at in zip(shape or found, found, strict=True))


def mlflow_folder(folder: Path, example: object = None) -> Path:
    """As MLflow 3.17.2 writes it for a tf.Module, looked at on 2026-11-28."""
    (folder / "MLmodel").parent.mkdir(parents=True)
    (folder / "MLmodel").write_text("flavors:\n  tensorflow:\n    saved_model_dir: tf2model\n")
    (folder / "requirements.txt").write_text("mlflow==3.17.2\ntensorflow\n")
    if example is not None:
        (folder / "serving_input_example.json").write_text(json.dumps(example, indent=2))
    shutil.copytree(next(RANKER.iterdir()), folder / "tf2model")
    return folder


def test_the_saved_model_of_an_mlflow_folder_is_found(begun: Path) -> None:
    mlflow_folder(begun / "mlruns" / "prices")
    assert run("mlruns/prices", "--name", "first").return_value == 0
    (loaded,) = load(begun, begun / "environments")
    assert isinstance(loaded, ValidFile)
    (named,) = loaded.environment.models.items()
    assert (named[0], named[1].saved_model) == ("prices", "mlruns/prices/tf2model")


def test_an_input_example_of_mlflow_is_the_golden_request(begun: Path) -> None:
    example = json.loads((RANKER.parent / "golden" / "request-columnar.json").read_text())
    mlflow_folder(begun / "mlruns" / "prices", example)
    run("mlruns/prices", "--name", "first")
    assert json.loads((begun / "golden" / "first" / "request.json").read_text()) == example


def test_a_table_of_pandas_is_no_golden_request(begun: Path) -> None:
    table = {"dataframe_split": {"columns": ["a"], "data": [[1]]}}
    mlflow_folder(begun / "mlruns" / "prices", table)
    run("mlruns/prices", "--name", "first")
    assert not (begun / "golden" / "first").exists()


def test_an_mlflow_folder_with_a_keras_file_says_how_to_export_it(begun: Path) -> None:
    folder = mlflow_folder(begun / "mlruns" / "prices")
    shutil.rmtree(folder / "tf2model")
    (folder / "data").mkdir()
    (folder / "data" / "model.keras").write_bytes(b"")
    ran = run("mlruns/prices", "--name", "first")
    exported = "keras.saving.load_model('mlruns/prices/data/model.keras').export('exported')"
    assert (ran.return_value, exported in ran.stderr) == (1, True)
