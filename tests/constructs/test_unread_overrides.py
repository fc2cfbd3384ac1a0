"""Overrides in an app of one's own: those of an environment that the app does not have are an error."""

from pathlib import Path

import aws_cdk as cdk
import pytest

from stacks.environment_stage import EnvironmentStacks
from tests.conftest import RANKER, VALID

# As the CLI gives them: the last two keys are the app's own, and an override that is read.
CONTEXT = {"staging.endpoint.name": "other", "acme.flag": True, "prod.tags.acme:owner": "me"}


@pytest.mark.long
def test_an_override_is_read_by_its_environment_or_an_error_if_the_app_has_none(
    tmp_path: Path,
) -> None:
    for name in ("prod", "staging"):
        text = VALID.replace('"ranker"', f'"{name}"', 1).replace('"model"', f'"{RANKER}"')
        (tmp_path / f"{name}.toml").write_text(text)

    app = cdk.App(context=CONTEXT)
    prod = EnvironmentStacks(app, "prod", file=tmp_path / "prod.toml")
    with pytest.raises(RuntimeError, match=r"-c staging.endpoint.name: there is no environment"):
        app.synth()
    assert prod.endpoint_stack.tags.tag_values()["acme:owner"] == "me"

    app = cdk.App(context=CONTEXT)
    EnvironmentStacks(app, "prod", file=tmp_path / "prod.toml")
    staging = EnvironmentStacks(app, "staging", file=tmp_path / "staging.toml")
    app.synth()
    assert staging.endpoint.name == "other"
