"""The recorded terminal of README shows what the programs print, and loads nothing."""

import html
import re
from pathlib import Path

import pytest

from scripts.documentation.terminal import CHECK, PICTURE, shortened, svg
from tests.docs import outputs

# As the CDK CLI prints it where there is no terminal.
DEPLOYED = """\
ranker-local-endpoint | 16/35 | 10:42 | CREATE_IN_PROGRESS | AWS::SageMaker::Endpoint | local/Endpoint
ranker-local-endpoint | 17/35 | 10:42 | CREATE_COMPLETE    | AWS::SageMaker::Endpoint | local/Endpoint
ranker-local-endpoint | 18/35 | 10:42 | CREATE_COMPLETE    | AWS::SNS::Topic          | local/Topic

✅  local/endpoint (ranker-local-endpoint)
"""


def words(picture: str) -> str:
    """The text of a picture without spaces: its lines are wrapped."""
    parts = re.findall(r"<text [^>]*>(.*?)</text>", picture)
    return re.sub(r"\s", "", html.unescape("".join(parts)))


def test_the_recorded_check_is_what_the_command_prints_now(tmp_path: Path) -> None:
    printed = outputs.output(CHECK, outputs.project(tmp_path))
    shown = words(PICTURE.read_text(encoding="utf-8"))
    assert [line for line in printed if re.sub(r"\s", "", line) not in shown] == []


def test_of_a_deployment_the_endpoint_and_its_end_are_shown() -> None:
    assert list(shortened(DEPLOYED.splitlines())) == [
        "17/35  CREATE_COMPLETE  AWS::SageMaker::Endpoint",
        "deployed: local/endpoint (ranker-local-endpoint)",
    ]


@pytest.mark.parametrize("picture", ["recorded", "drawn now"])
def test_the_picture_of_a_terminal_loads_nothing(picture: str) -> None:
    drawn = svg([("command", "output")])
    text = PICTURE.read_text(encoding="utf-8") if picture == "recorded" else drawn
    assert re.findall(r"(?:url\(|href=|src=)[\"']?\w+://", text) == []
