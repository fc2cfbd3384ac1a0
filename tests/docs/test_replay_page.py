"""The outputs on docs/replay.md have the form of what is printed; their numbers are of an hour nobody has."""

import json
import re
from contextlib import chdir

import pytest
from click.testing import CliRunner

from servable.captured.lines import RecordedAnswer, format_line
from servable.golden.command import golden
from servable.replay.command import replay
from tests.checkouts import ROOT
from tests.conftest import VALID, make_project
from tests.docs.outputs import ANY
from tests.servable.replay.captures import NINE, request
from tests.servable.tune.servers import Answer, Server

pytestmark = pytest.mark.long

BLOCKS = re.findall(r"```text\n(.*?)```", (ROOT / "docs/replay.md").read_text(), re.DOTALL)
REQUESTS = 300
SCORES = [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]


def form(line: str) -> str:
    """The line with one digit instead of every number."""
    return re.sub(r"\d[\d,.]*(?<![,.])", "0", line)


def answered(number: int, headers: dict[str, str], body: bytes) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps({"scores": SCORES}).encode()


def changed(number: int, headers: dict[str, str], body: bytes) -> Answer:
    """Change the highest score of every hundredth answer."""
    other = int(body.split(b"[[")[1].split(b"]")[0]) % 100 == 7
    scores = [row[::-1] for row in SCORES] if other else SCORES
    return 200, {"Content-Type": "application/json"}, json.dumps({"scores": scores}).encode()


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The form of every line of three runs: against what was captured, against another target, golden."""
    project = make_project(tmp_path_factory.mktemp("replayed"))
    (project / "environments" / "prod.toml").write_text(VALID)
    (project / "cdk.json").write_text("{}")
    _, _, body = answered(0, {}, b"")
    kept = RecordedAnswer(body=body, content_type="application/json", status=200)
    lines = [
        format_line(request(number, time=NINE + number / 1000, answer=kept))
        for number in range(REQUESTS)
    ]
    (project / "captured").mkdir()
    (project / "captured" / "x.jsonl").write_bytes(b"\n".join([*lines, lines[0][:50]]))
    examples = ROOT / "examples" / "ranker" / "golden"
    rows, columnar = (
        (examples / f"request-{name}.json").read_bytes() for name in ("rows", "columnar")
    )
    kept = RecordedAnswer(
        body=(examples / "answer-columnar.json").read_bytes(),
        content_type="application/json",
        status=200,
    )
    several = [
        request(number, body=body, answer=kept) for number, body in enumerate((rows, columnar))
    ]
    (project / "requests.jsonl").write_bytes(b"".join(format_line(one) + b"\n" for one in several))
    with chdir(project), Server(answered) as first, Server(changed) as second:
        place = ["--captured", "captured"]
        both = [*place, "--as-fast", "--against", first.url, "--gate"]
        said = [
            CliRunner().invoke(command, arguments).output
            for command, arguments in (
                (replay, [first.url, *place]),
                (replay, [second.url, *both]),
                (golden, ["prod", "--from-captured", "requests.jsonl", "--write"]),
            )
        ]
    return [form(line) for line in "".join(said).splitlines()]


@pytest.mark.parametrize("line", [line for block in BLOCKS for line in block.splitlines()])
def test_a_line_of_the_page_has_the_form_of_one_that_is_printed(
    line: str, printed: list[str]
) -> None:
    # A run is named after its target.
    pattern = re.escape(form(line).replace("prod-", ANY)).replace(ANY, ".*")
    assert any(re.fullmatch(pattern, one) for one in printed), "\n".join(printed)
