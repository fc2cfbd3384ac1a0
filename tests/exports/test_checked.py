"""Exports of every framework become environments that pass the checks, or are refused with the reason."""

import contextlib
import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import load
from infra.preflight.check import check
from model_packaging.requests.known_requests import JSON, Reader, check_response, read_request
from model_packaging.saved_model.reading import read
from servable.init import first_request
from servable.init.command import init
from tests.checkouts import ROOT
from tests.exports.exports import FOLDER, MODELS, NAMES, REFUSED, answers
from tests.preflight.overlay import overlaid

KEPT = [name for name in NAMES if name not in REFUSED]
STABLEHLO = {name for name in NAMES if name.startswith("jax-")} | {"keras-jax"}
# The others are as long as all the rest of the quick tests.
QUICK = ("keras-open", "module-scalar", "module-signatures", "module-unknown-rank", "tf1-examples")
Begin = Callable[..., tuple[Path, Result]]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Begin:
    """begun(NAME): a folder with that export alone, and what `servable init` said there.

    `asked`: the model is sent its first request in the local container.
    """
    root = tmp_path_factory.mktemp("begun")

    @functools.cache
    def run(name: str, asked: bool = False) -> tuple[Path, Result]:
        folder = root / f"{name}-asked" if asked else root / name
        shutil.copytree(MODELS / name, folder / "My model.v2")
        told = ["My model.v2", "--account", "123456789012", "--region", "us-east-1", "--json"]
        with contextlib.chdir(folder), pytest.MonkeyPatch.context() as patched:
            if not asked:
                unasked = "no model runs in this test"
                patched.setattr(first_request, "explain_missing_packages", lambda: unasked)
            return folder, CliRunner().invoke(init, told, standalone_mode=False)

    return run


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in KEPT]
)
def test_a_first_environment_passes_the_checks(name: str, begun: Begin) -> None:
    folder, ran = begun(name)
    assert ran.return_value == 0
    (loaded,) = load(folder, folder / "environments")
    expected = ["signature-default-missing"] if name == "module-signatures" else []
    assert [finding.rule for finding in check(loaded)] == expected


def test_what_cannot_be_served_is_refused_with_its_reason(begun: Begin) -> None:
    for name, reason in REFUSED.items():
        _, ran = begun(name)
        assert (name, ran.return_value, reason in ran.stderr) == (name, 1, True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("keras-open", "Computed output size would be negative: -1"),
        ("module-signatures", ""),
        ("module-pictures", ""),
        ("module-ragged", "data.shape = [1] does not start"),
    ],
)
def test_a_first_request_is_written_only_if_the_model_answers_it(
    name: str, problem: str, begun: Begin
) -> None:
    folder, ran = begun(name, asked=True)
    said, text = json.loads(ran.stdout), (folder / "environments" / "My-model-v2.toml").read_text()
    golden = folder / "golden" / "My-model-v2"
    written = [f"golden/My-model-v2/{file}.json" in said["files"] for file in ("request", "answer")]
    notes = [note for note in said["notes"] if note.startswith(problem or "Invented")]
    assert (written, golden.exists(), len(notes)) == ([not problem] * 2, not problem, bool(problem))
    warm_up = [line for line in text.splitlines() if line.startswith("warm_up")]
    kept = ['warm_up     = ["golden/My-model-v2/request.json"]']
    assert warm_up == ([] if problem else kept)
    if problem:
        assert "# request = " in text
        assert "The model rejected an invented request" in notes[0]
    else:
        (loaded,) = load(folder, folder / "environments")
        assert not [finding for finding in check(loaded) if finding.severity is Severity.ERROR]


def test_for_examples_no_request_is_made_up(begun: Begin) -> None:
    folder, ran = begun("tf1-examples")
    notes = json.loads(ran.stdout)["notes"]
    assert [note for note in notes if "serves classify with tf.Example" in note]
    assert not (folder / "golden").exists()


def found(project: Path, name: str, lines: str) -> list[Finding]:
    return check(overlaid(project, f'models.ranker.saved_model = "{MODELS / name}"\n{lines}'))


@pytest.mark.long
def test_batching_needs_an_open_dimension_and_jax_the_image_of_2_20(project: Path) -> None:
    lines = "variants.primary.container.batching = { max_batch_size = 8 }"
    said = {name: found(project, name, lines) for name in KEPT}
    refused = {
        name: {one.severity for one in several if one.rule == "batch-fixed-shape"}
        for name, several in said.items()
    }
    assert {name: one for name, one in refused.items() if one} == {
        "jax-fixed": {Severity.ERROR},
        # `serve` says the same as `serving_default`, and nobody needs to call it.
        "keras-fixed": {Severity.ERROR, Severity.WARNING},
        "module-scalar": {Severity.ERROR},
        "tf1-tags": {Severity.WARNING},
    }
    rule = "model-stablehlo-version"
    assert not [name for name, several in said.items() if rule in {one.rule for one in several}]
    lines = 'models.ranker.tensorflow = "2.19"'
    tried = {*STABLEHLO, "keras-open", "tf1-simple"} - set(REFUSED)
    said = {name: found(project, name, lines) for name in tried}
    too_new = {name for name, several in said.items() if rule in {one.rule for one in several}}
    assert too_new == STABLEHLO - set(REFUSED)


def test_a_module_for_cuda_is_for_an_instance_type_with_a_gpu(project: Path) -> None:
    lines = 'variants.primary.instance_type = "ml.g4dn.xlarge"'
    said = {name: [one.rule for one in found(project, name, lines)] for name in STABLEHLO}
    for_cpu = sorted(name for name, rules in said.items() if "model-platform" in rules)
    assert for_cpu == ["jax-fixed", "jax-open", "keras-jax"]


@pytest.mark.parametrize("name", KEPT)
def test_the_frameworks_request_and_answer_fit_the_signature(name: str) -> None:
    info = read(MODELS / name / "1")
    for signature, inputs, outputs in answers(name).asked:
        body = json.dumps({"signature_name": signature, "inputs": inputs}).encode()
        known = read_request(body, JSON, info, Reader.SERVABLE)
        assert known is not None
        answer = outputs if len(outputs) > 1 else next(iter(outputs.values()))
        check_response(json.dumps({"outputs": answer}).encode(), known)


def test_the_exports_are_small_and_dated() -> None:
    size = sum(file.stat().st_size for file in FOLDER.rglob("*") if file.is_file())
    undated = [name for name in NAMES if not answers(name).date or not answers(name).versions]
    assert (size <= 1_500_000, undated) == (True, [])


def test_the_page_names_every_export_and_shows_the_calls_that_made_them() -> None:
    made = {one.strip() for one in (FOLDER / "make.py").read_text().splitlines()}
    page = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
    blocks = [one.partition("```")[0] for one in page.split("```python\n")[1:]]
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    assert [one for one in lines if one and not one.startswith("#") and one not in made] == []

    assert [name for name in NAMES if f"`{name}`" not in page] == []
