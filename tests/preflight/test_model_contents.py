"""What a model reads when it is loaded: its own variables, whole, and vocabularies that fill a table."""

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.parameters.finding import Finding, Severity
from infra.preflight.check import check, check_all
from infra.preflight.model import contents
from infra.preflight.rule import Candidate
from model_packaging.saved_model.initialization import VocabularyTable
from model_packaging.saved_model.reading import read
from tests.preflight.overlay import overlaid

EXPORTS = Path(__file__).resolve().parents[1] / "exports" / "models"
Export = Callable[[str], Path]


@pytest.fixture
def export(project: Path) -> Export:
    """`export("keras-open")` copies that export to the project's model/, with version 1."""

    def copied(name: str) -> Path:
        shutil.rmtree(project / "model")
        return Path(shutil.copytree(EXPORTS / name, project / "model")) / "1"

    return copied


def of(project: Path, rule: str, lines: str = "") -> list[Finding]:
    return [finding for finding in check(overlaid(project, lines)) if finding.rule == rule]


@pytest.mark.parametrize("name", ["keras-open", "keras2-saved", "tf1-simple", "jax-open"])
def test_an_exports_own_variables_are_no_finding(project: Path, export: Export, name: str) -> None:
    export(name)
    assert of(project, "model-variables") == []


@pytest.mark.parametrize(
    ("name", "other", "problem"),
    [
        ("keras-open", "keras-fixed", "has the shape [4, 2], but the graph's is [3, 3, 3, 2]"),
        ("tf1-simple", "keras-fixed", "variables.index has no 'w', which the graph restores"),
        ("module-signatures", "keras-fixed", "variables.index has no 'w/.ATTRIBUTES"),
    ],
)
def test_variables_of_another_export_are_named(
    project: Path, export: Export, name: str, other: str, problem: str
) -> None:
    version = export(name)
    shutil.rmtree(version / "variables")
    shutil.copytree(EXPORTS / other / "1" / "variables", version / "variables")
    (finding,) = of(project, "model-variables")
    assert problem in finding.problem


def test_variables_damaged_or_never_restored_are_errors(project: Path, export: Export) -> None:
    data = export("keras-open") / "variables" / "variables.data-00000-of-00001"
    damaged = bytearray(data.read_bytes())
    damaged[10] ^= 4
    data.write_bytes(damaged)
    (finding,) = of(project, "model-variables")
    assert "the checksum of 'variables/0/" in finding.problem

    export("keras-saved")
    (finding,) = check(overlaid(project, ""))
    assert (finding.rule, finding.severity) == ("model-unfilled", Severity.ERROR)
    assert finding.problem == (
        "model/1/saved_model.pb: signature 'serving_default' reads the variables sequential/dense/bias, "
        "sequential/dense/kernel that nothing restores or initializes: its requests fail"
    )
    assert finding.remedy.startswith("export a Keras model with model.export(FOLDER)")


def test_what_is_too_large_to_be_read_is_not_checked(
    project: Path, export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = export("keras-open") / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(bytes(data.stat().st_size))
    monkeypatch.setattr("model_packaging.saved_model.variables.MOST_CHECKED_BYTES", 1)
    found = [one for one in check_all(overlaid(project, "")) if one.rule == "model-variables"]
    assert {one.severity for one in found} == {Severity.NOT_CHECKED}

    export("keras-saved")
    monkeypatch.setattr("model_packaging.saved_model.operations._MOST_FOLLOWED_BYTES", 1)
    found = [one for one in check_all(overlaid(project, "")) if one.rule == "model-unfilled"]
    assert [one.severity for one in found] == [Severity.NOT_CHECKED]


def test_a_vocabulary_that_tensorflow_refuses_is_named_with_its_line(
    project: Path, export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tests/packaging/test_operations.py reads the table from a graph with one."""
    version = export("keras-open")
    (version / "assets").mkdir(exist_ok=True)
    (version / "assets" / "words.txt").write_text("a\na\n")
    table = VocabularyTable(
        file="words.txt", key_column=-2, value_column=-1, delimiter="\t", lines=-1
    )
    loaded = overlaid(project, "")
    assert loaded.draft is not None
    rule = contents.ModelVocabulary(Candidate(loaded, loaded.draft))
    info = dataclasses.replace(read(version), assets=("words.txt",))
    monkeypatch.setattr(type(rule.candidate), "read_saved_models", lambda *_: [(version, info)])
    object.__setattr__(rule.candidate.read_graph(version), "vocabularies", (table,))
    (finding,) = rule.check()
    assert finding.problem.startswith("model/1/assets/words.txt: line 2: the key 'a'")


def test_version_zero_starts_since_2_20_or_without_folder(project: Path, export: Export) -> None:
    for tensorflow, count in [("2.20", 0), ("2.19", 1)]:
        version = export("keras-open")
        version.rename(version.with_name("0"))
        lines = f'models.ranker.tensorflow = "{tensorflow}"'
        assert len(of(project, "version-zero", lines)) == count
    lines = f'models.ranker = {{ saved_model = "{export("keras-open")}", version = 0 }}'
    assert check(overlaid(project, lines)) == []
