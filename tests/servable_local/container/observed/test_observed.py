"""The local container is asked what the image's own code was asked, and has to answer the same.

What differs stands in differences.toml, group by group, each with its reason.
"""

import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servable_local.container.observed import table

CASES = table.cases()
GROUPS: dict[str, list[table.Case]] = {}
for _case in CASES:
    GROUPS.setdefault(_case.group, []).append(_case)
DIFFERENCES: dict[str, dict[str, str]] = tomllib.loads(
    (table.HERE / "differences.toml").read_text(encoding="utf-8")
)


def _differs(case: table.Case) -> bool:
    return case.name in DIFFERENCES.get(case.group, {})


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("observed")
    script = table.HERE / "models.py.txt"
    subprocess.run([sys.executable, script, folder], check=True, capture_output=True)
    return folder


@pytest.fixture
def asked(group: str, models: Path, tmp_path: Path) -> Iterator[dict[str, table.Answer]]:
    """Case -> the local container's answer, for all cases of a group, in their order."""
    cases = GROUPS[group]
    folders = table.unpacked_models(models, tmp_path) if cases[0].is_multi_model else {}
    with table.serving(cases[0], models, tmp_path) as url:
        yield {case.name: table.asked(url, case, folders) for case in cases}


@pytest.mark.long
@pytest.mark.parametrize("group", GROUPS)
def test_the_local_container_answers_as_the_image_did(
    group: str, asked: dict[str, table.Answer]
) -> None:
    wrong = {case.name for case in GROUPS[group] if asked[case.name] != case.answer}
    assert wrong == DIFFERENCES.get(group, {}).keys()


def test_without_our_handler_99_of_100_answers_are_the_same() -> None:
    others = [case for case in CASES if not case.with_handler]
    assert sum(map(_differs, others)) <= len(others) / 100


def test_every_difference_is_of_a_case() -> None:
    named = {(group, case) for group, cases in DIFFERENCES.items() for case in cases}
    assert named <= {(case.group, case.name) for case in CASES}
