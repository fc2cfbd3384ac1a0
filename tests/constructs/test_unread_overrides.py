"""Overrides in an app of one's own: those of an environment that the app does not have are an error."""

from pathlib import Path

import aws_cdk as cdk
import pytest

from stacks.environment_stage import EnvironmentStacks
from tests.conftest import RANKER, VALID

# As the CLI gives them: the last two keys are the app's own, and an override that is read.
CONTEXT = {"staging.endpoint.name": "other", "acme.flag": True, "prod.tags.acme:owner": "me"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    folder = tmp_path / "environments"
    folder.mkdir()
    for name in ("prod", "staging"):
        text = VALID.replace('"ranker"', f'"{name}"', 1).replace('"model"', f'"{RANKER}"')
        (folder / f"{name}.toml").write_text(text)
    return folder


def test_an_override_of_an_environment_that_the_app_does_not_have_is_an_error(files: Path) -> None:
    app = cdk.App(context=CONTEXT)
    prod = EnvironmentStacks(app, "prod", file=files / "prod.toml")
    with pytest.raises(RuntimeError, match=r"-c staging.endpoint.name: there is no environment"):
        app.synth()
    assert {"key": "acme:owner", "value": "me"} in [
        {"key": key, "value": value} for key, value in prod.endpoint_stack.tags.tag_values().items()
    ]


def test_an_override_of_a_different_environment_of_the_app_is_read_by_that(files: Path) -> None:
    app = cdk.App(context=CONTEXT)
    EnvironmentStacks(app, "prod", file=files / "prod.toml")
    staging = EnvironmentStacks(app, "staging", file=files / "staging.toml")
    app.synth()
    assert staging.endpoint.name == "other"
