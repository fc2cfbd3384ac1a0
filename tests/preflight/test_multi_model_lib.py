"""Models of one multi-model endpoint whose own code/lib/ holds two versions of a package.

Packages that pip puts there are in test_multi_model_packages.py.
"""

from pathlib import Path

import pytest

from infra.preflight.check import check
from tests.conftest import VALID, Environment
from tests.findings import Message, messages

MODELS = "".join(f'[models.{name}]\nsaved_model = "model"\ncode = "{name}"\n' for name in "abc")


def said(environment: Environment, members: str = '"a", "b"') -> list[Message]:
    text = VALID.replace('saved_model = "model"', f"multi_model = [{members}]") + MODELS
    found = check(environment(text))
    return messages(one for one in found if one.rule == "multi-model-packages")


@pytest.fixture
def code(project: Path) -> Path:
    """Code of three models: a and b hold the package `plain`, in 1.0 and 2.0; c and b `other`, in 1.0."""
    for name, lib in (
        ("a", ["plain-1.0"]),
        ("b", ["plain-2.0", "other-1.0"]),
        ("c", ["other-1.0"]),
    ):
        for package in lib:
            (project / name / "lib" / f"{package}.dist-info").mkdir(parents=True)
        (project / name / "inference.py").write_text("def handler(data, context): ...\n")
    return project


def test_two_versions_of_a_package_are_refused(environment: Environment, code: Path) -> None:
    assert said(environment) == [
        (
            "models.ranker.multi_model",
            "plain is 2.0 in the code of 'b', and 1.0 in that of 'a'; they share one process",
            "",
            "name one version in the requirements.txt of both, and run `servable package prod`",
        )
    ]
    assert said(environment, '"a", "absent"') == []
    for members in ['"a"', '"b", "c"', '"a", "c"']:
        assert said(environment, members) == []
