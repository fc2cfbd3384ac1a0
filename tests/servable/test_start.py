"""`servable init`: a first file that passes the checks, for a SavedModel that is not ours."""

import base64
import io
import itertools
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as some

from infra.catalog.instances import load_instances
from infra.catalog.prices import find_price
from infra.parameters.finding import Severity
from infra.parameters.loading import ValidFile, load
from infra.preflight.check import check
from model_packaging.saved_model.reading import SignatureInfo, TensorInfo
from servable.console.extras import explain_missing_packages
from servable.init import first_request
from servable.init.command import init
from servable.init.first_environment import _choose_cheapest_instance
from servable.init.model_folder import _choose_sizes, _estimate_least_bytes, build_golden_request
from tests.conftest import RANKER, valid


@pytest.fixture
def begun(prod: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without an environment."""
    (prod / "environments" / "prod.toml").unlink()
    monkeypatch.setattr(first_request, "explain_missing_packages", lambda: "no model runs here")
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    return prod


PLACE = {"--account": "123456789012", "--region": "us-east-1"}


def run(*arguments: str, options: Mapping[str, str] = PLACE) -> Result:
    told = [*arguments, *itertools.chain(*options.items())]
    return CliRunner().invoke(init, told, standalone_mode=False)


def run_json(*arguments: str) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


def written(folder: Path, name: str = "first") -> ValidFile:
    """The environment of this name, which the command has written."""
    return valid(next(one for one in load(folder, folder / "environments") if one.name == name))


def model_of(folder: Path, name: str = "first") -> Any:
    (model,) = written(folder, name).environment.models.values()
    return model


def test_a_first_file_passes_the_checks_says_how_to_go_on_and_is_never_written_over(
    begun: Path,
) -> None:
    ran = run("model", "--name", "first")
    assert ran.return_value == 0
    assert "cdk bootstrap aws://123456789012/us-east-1" in ran.stdout
    assert ran.stdout.count(" KiB") == 1
    errors = [one for one in check(written(begun)) if one.severity is Severity.ERROR]
    assert (errors, model_of(begun).handler) == ([], "servable")
    (begun / "environments" / "first.toml").write_text("# mine")
    assert run("model", "--name", "first").return_value == 1
    assert (begun / "environments" / "first.toml").read_text() == "# mine"


HANDLER = "def handler(data, context):\n    return data.read(), context.accept_header\n"


@pytest.mark.parametrize("version", ["", "/1"])
def test_code_beside_the_versions_becomes_the_models_code_in_place_or_copied(
    begun: Path, tmp_path_factory: pytest.TempPathFactory, version: str
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "m"
    shutil.copytree(RANKER, elsewhere)
    for folder in (begun / "model", elsewhere):
        (folder / "code").mkdir()
        (folder / "code" / "inference.py").write_text(HANDLER)
    run(f"model{version}", "--name", "first")
    assert (model_of(begun).code, model_of(begun).handler) == ("model/code", None)
    assert run(f"{elsewhere}{version}", "--copy", "--name", "second").return_value == 0
    copied = model_of(begun, "second")
    assert (copied.saved_model, copied.code) == (f"models/m{version}", "models/m/code")
    assert (begun / "models" / "m" / "1" / "saved_model.pb").is_file()


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
    ".gitignore", "cdk.json", "environments/base.toml", "environments/schema.json", "package-lock.json",
    "package.json", "requirements.txt",
}  # fmt: skip


def test_in_any_folder_it_writes_what_a_project_lacks_and_has_no_finding(empty: Path) -> None:
    said = run_json("my_model")
    assert files(empty) == MADE | {"environments/my-model.toml"}
    loaded = written(empty, "my-model")
    assert loaded.environment.security.network_isolation
    assert (check(loaded), said["findings"]) == ([], [])
    assert set(said["reasons"]) == {"instance_type", "tensorflow"}


def test_the_cheapest_instance_type_with_room_is_chosen() -> None:
    prices = {}
    for name, each in load_instances().items():
        row = find_price(name, "us-east-1")
        if row and each.architecture == "x86_64" and not (each.gpus or each.burstable):
            prices[name] = float("inf") if each.successor else row.usd_per_hour
    for size_gib in (0.001, 30.0):
        chosen, _ = _choose_cheapest_instance(size_gib, "us-east-1")
        roomy = (name for name in prices if load_instances()[name].memory_gib > 2 * size_gib + 1)
        assert prices[chosen.name] <= min(prices[name] for name in roomy)
        assert chosen.memory_gib * 0.7 > size_gib


def test_what_is_no_saved_model_is_refused_and_a_base_of_another_model_not_extended(
    begun: Path,
) -> None:
    (begun / "mine.keras").write_bytes(b"PK")
    for arguments, problem in (
        (["code"], "has no version folder"),
        (["mine.keras"], ".export('exported')"),
        (["model", "--request", "mine.keras"], "unsupported file name extension '.keras'"),
    ):
        ran = run(*arguments)
        assert (ran.return_value, problem in ran.stderr) == (1, True)
    (begun / "environments" / "base.toml").write_text('[models.other]\nsaved_model = "model"\n')
    assert run("model", "--name", "first").return_value == 0
    assert "extends" not in (begun / "environments" / "first.toml").read_text()


def test_what_is_there_is_kept(empty: Path) -> None:
    (empty / "package.json").write_text("{}")
    (empty / "cdk.json").write_text('{"app": "node app.js"}')
    notes = "\n".join(run_json("my_model")["notes"])
    assert (empty / "package.json").read_text() == "{}"
    assert not (empty / "package-lock.json").exists()
    assert "cdk.json runs 'node app.js'" in notes
    assert "package.json pins no CDK CLI" in notes


def test_what_is_refused_leaves_nothing_and_what_is_there(empty: Path) -> None:
    for option, value, said in (
        ("--account", "12", "account: '12' does not have the required form"),
        ("--region", "moon", "no CPU instance type in the catalog of moon"),
        ("--name", "under_score", "'under_score' is not a valid environment name"),
        ("--name", "base", "'base' is not a valid environment name"),
        ("--name", "n" * 41, "is not a valid environment name"),
    ):
        ran = run("my_model", options=PLACE | {option: value})
        assert (ran.return_value, files(empty), said in ran.stderr) == (1, set(), True)
    (empty / "golden" / "my-model").mkdir(parents=True)
    (empty / "golden" / "my-model" / "request.json").write_text("mine")
    ran = run("my_model")
    assert (ran.return_value, files(empty)) == (1, {"golden/my-model/request.json"})
    assert "golden/my-model/request.json: exists already" in ran.stderr


def test_without_a_model_it_writes_what_a_project_lacks_and_no_more(empty: Path) -> None:
    shutil.rmtree(empty / "my_model")
    first, again = run(options={}), run(options={})
    assert (files(empty), first.return_value, again.return_value) == (MADE, 0, 0)
    assert again.stdout == f"{empty}: no files are missing\n"


@pytest.mark.long
def test_a_request_that_fits_the_signature_or_the_callers_is_written_if_the_model_answers_it(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_request, "explain_missing_packages", explain_missing_packages)
    run("model", "--name", "ours")
    inputs = json.loads((begun / "golden" / "ours" / "request.json").read_text())["inputs"]
    assert {key: len(rows[0]) for key, rows in inputs.items()} == {"feat_ids": 39, "feat_vals": 39}

    def run_with(name: str, rows: int) -> Any:
        example["inputs"] = {"feat_ids": [[0] * 39] * rows, "feat_vals": [[0.5] * 39] * 2}
        (begun / "mine.json").write_text(json.dumps(example))
        return run_json("model", "--name", name, "--request", "mine.json")

    example: dict[str, Any] = {}
    said = run_with("first", 3)
    assert "golden/first/request.json" not in said["files"]
    assert re.match(r".+\. The model rejected your request", said["notes"][0])
    said = run_with("second", 2)
    request, answer = "golden/second/request.json", "golden/second/answer.json"
    assert {request, answer} <= {*said["files"]}
    assert json.loads((begun / request).read_text()) == example
    assert json.loads((begun / answer).read_text())["outputs"]


def test_without_a_default_signature_requests_are_said_to_need_a_name(begun: Path) -> None:
    shutil.copytree(RANKER / "1", begun / "exported")
    file = begun / "exported" / "saved_model.pb"
    # As long as the other: lengths stand before names.
    file.write_bytes(file.read_bytes().replace(b"serving_default", b"serving_another"))
    said = run_json("exported")
    assert said["signature"] in said["notes"][0]
    assert any("must name a signature" in note for note in said["notes"])


@pytest.mark.long
def test_a_model_may_lie_outside_be_linked_and_have_a_path_of_any_character(
    begun: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "exported"
    shutil.copytree(RANKER / "1", elsewhere)
    assert any("outside the project" in note for note in run_json(str(elsewhere))["notes"])
    assert model_of(begun, "exported").version == 1  # without version folders
    for folder, name in (("linked", "linked"), ("m\x1b\x07\x7f\U0001f600", "strange")):
        (begun / folder).symlink_to(elsewhere)
        assert run(folder, "--name", name).return_value == 0
    assert model_of(begun, "linked").saved_model == "linked"
    text = (begun / "environments" / "strange.toml").read_text()
    assert not {"\x1b", "\x07", "\x7f"} & set(text)


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


def test_without_credentials_it_names_the_local_aws_which_needs_no_bootstrap(
    begun: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servable.init.command._find_account", lambda _: None)
    said = run("model", "--name", "first", options={}).stdout
    assert 'eval "$(servable local up first)"' in said
    assert "bootstrap" not in said


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


def build(signature: SignatureInfo, notes: list[str] | None = None) -> str | None:
    return build_golden_request("serving_default", signature, [] if notes is None else notes)


@pytest.mark.long
def test_a_shape_too_large_for_a_request_is_noted_and_nothing_is_built(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("servable.init.model_folder._build_tensor")
    size, dimensions = "one row takes more than 5,000,000 bytes", "or more than 254 dimensions"
    shapes: list[tuple[tuple[int, ...], str]] = [
        ((1, 512, 512, 128, 1), size),
        (((1 << 63) - 1,), size),
        ((1 << 40, 0), size),
        ((1,) * 1_000_000, dimensions),
        ((1,) * 255, dimensions),
    ]
    for dtype, (shape, note) in itertools.product(("float32", "int64", "string"), shapes):
        notes: list[str] = []
        assert build(signature_of(x=(dtype, shape)), notes) is None
        assert note in notes[0]


def test_an_input_of_bytes_gets_a_picture_and_the_largest_request_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    signature = signature_of(image_bytes=("string", (None,)), text=("string", (None,)))
    inputs = json.loads(build(signature) or "")["inputs"]
    picture = base64.b64decode(inputs["image_bytes"][0]["b64"], validate=True)
    assert inputs["text"] == ["text 0"]
    image = matplotlib.image.imread(io.BytesIO(picture), format="png")
    assert (image.shape, len(set(image.flat))) == ((8, 8, 3), 1)

    assert build(signature_of(x=("int64", (1,) * 254)))

    monkeypatch.setattr("servable.init.model_folder.LARGEST_REQUEST_BYTES", 1_001)
    most = (1_001 + 1 - len('{"inputs":{"x":[]}}\n')) // 2
    for count in (most, most + 1):
        assert (build(signature_of(x=("int64", (count,)))) is None) == (count > most)


@given(some.dictionaries(some.text("ab", min_size=1), some.tuples(DTYPES, SHAPES), min_size=1))
def test_a_request_has_the_shape_of_any_signature_and_at_least_the_bytes_that_are_foreseen(
    inputs: dict[str, tuple[str, tuple[int | None, ...] | None]],
) -> None:
    signature = signature_of(**inputs)
    specs = signature.inputs
    body = build(signature)
    assert body is not None
    for key, value in json.loads(body)["inputs"].items():
        shape = specs[key].shape
        found = shape_of(value)
        assert len(found) == (1 if shape is None else len(shape))
        assert all(size in (None, at) for size, at in zip(shape or found, found, strict=True))
    foreseen = (_estimate_least_bytes(_choose_sizes(spec), spec.dtype) for spec in specs.values())
    assert sum(foreseen) <= len(body)


def mlflow_folder(folder: Path, example: object = None) -> Path:
    """As MLflow 3.17.2 writes it for a tf.Module, looked at on 2026-11-28."""
    (folder / "MLmodel").parent.mkdir(parents=True)
    (folder / "MLmodel").write_text("flavors:\n  tensorflow:\n    saved_model_dir: tf2model\n")
    (folder / "requirements.txt").write_text("mlflow==3.17.2\ntensorflow\n")
    if example is not None:
        (folder / "serving_input_example.json").write_text(json.dumps(example, indent=2))
    shutil.copytree(next(RANKER.iterdir()), folder / "tf2model")
    return folder


@pytest.mark.long
def test_the_saved_model_of_an_mlflow_folder_and_its_input_example_are_found(begun: Path) -> None:
    example = json.loads((RANKER.parent / "golden" / "request-columnar.json").read_text())
    mlflow_folder(begun / "mlruns" / "prices", example)
    ran = run("mlruns/prices", "--name", "first")
    assert (ran.return_value, "MLflow's own server" in ran.stdout) == (0, True)
    assert list(written(begun).environment.models) == ["prices"]
    assert model_of(begun).saved_model == "mlruns/prices/tf2model"
    assert json.loads((begun / "golden" / "first" / "request.json").read_text()) == example
    table = {"dataframe_split": {"columns": ["a"], "data": [[1]]}}
    mlflow_folder(begun / "mlruns" / "tables", table)
    assert run("mlruns/tables", "--name", "second").return_value == 0
    assert not (begun / "golden" / "second").exists()
    # One with a Keras file says how to export it.
    folder = mlflow_folder(begun / "mlruns" / "keras")
    shutil.rmtree(folder / "tf2model")
    (folder / "data").mkdir()
    (folder / "data" / "model.keras").write_bytes(b"")
    ran = run("mlruns/keras", "--name", "third")
    exported = "keras.saving.load_model('mlruns/keras/data/model.keras').export('exported')"
    assert (ran.return_value, exported in ran.stderr) == (1, True)
