"""The outputs on docs/replay.md have the form of what is printed; their numbers are of an hour nobody has.

What docs/local.md shows of code whose packages are for another Python is what is printed.
"""

import json
import platform
import re
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

from model_packaging.dependencies.wheels import unpack
from servable.captured.lines import RecordedAnswer, format_line
from servable.golden.command import golden
from servable.replay.command import replay
from tests.checkouts import GOLDEN, ROOT, run_in
from tests.conftest import VALID, make_project
from tests.docs.outputs import ANY
from tests.packaging.wheelhouse import installed_wheel
from tests.servable.replay.captures import NINE, request
from tests.servable.tune.servers import Answer, Server

pytestmark = pytest.mark.long

BLOCKS = re.findall(r"```text\n(.*?)```", (ROOT / "docs/replay.md").read_text(), re.DOTALL)
REQUESTS = 300
SCORES = [[0.1, 0.9], [0.2, 0.8], [0.3, 0.7]]
# As the container does: code/ and code/lib before what is installed, problems beside the error.
STARTED = """
import sys
from pathlib import Path
from servable_local.container.compiled_packages import provide_compiled_packages
from servable_local.container.gunicorn.user_code import CodeError, load_handler
from servable_local.container.image_code import find_image_code
code = Path("code").resolve()
problems = provide_compiled_packages(code).problems
sys.path[:0] = [str(code), str(code / "lib")]
try:
    load_handler(code / "inference.py", find_image_code("2.20"), problems)
except CodeError as error:
    print(error)
"""


def form(line: str) -> str:
    """The line with one digit instead of every number."""
    return re.sub(r"\d[\d,.]*(?<![,.])", "0", line)


def answered(number: int, headers: object, body: bytes, scores: object = SCORES) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps({"scores": scores}).encode()


def changed(number: int, headers: object, body: bytes) -> Answer:
    """Change the highest score of every hundredth answer."""
    other = int(body.split(b"[[")[1].split(b"]")[0]) % 100 == 7
    return answered(number, headers, body, [row[::-1] for row in SCORES] if other else SCORES)


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The form of every line of three runs: against what was captured, against another target, golden."""
    project = make_project(tmp_path_factory.mktemp("replayed"))
    (project / "environments" / "prod.toml").write_text(VALID)
    (project / "cdk.json").write_text("{}")
    _, _, body = answered(0, {}, b"")
    kept = RecordedAnswer(body=body, content_type="application/json", status=200)
    hour = (request(n, time=NINE + n / 1000, answer=kept) for n in range(REQUESTS))
    lines = [*map(format_line, hour)]
    (project / "captured").mkdir()
    (project / "captured" / "x.jsonl").write_bytes(b"\n".join([*lines, lines[0][:50]]))
    rows, columnar, body = (
        (GOLDEN / f"{name}.json").read_bytes()
        for name in ("request-rows", "request-columnar", "answer-columnar")
    )
    kept = RecordedAnswer(body=body, content_type="application/json", status=200)
    several = [request(n, body=each, answer=kept) for n, each in enumerate((rows, columnar))]
    (project / "requests.jsonl").write_bytes(b"".join(format_line(one) + b"\n" for one in several))
    with chdir(project), Server(answered) as first, Server(changed) as second:
        place = ["--captured", "captured"]
        both = [*place, "--as-fast", "--against", first.url, "--gate"]
        chosen = ["prod", "--from-captured", "requests.jsonl", "--write"]
        runs = ((replay, [first.url, *place]), (replay, [second.url, *both]), (golden, chosen))
        said = [CliRunner().invoke(command, arguments).output for command, arguments in runs]
    return [form(line) for line in "".join(said).splitlines()]


@pytest.mark.parametrize("line", [line for block in BLOCKS for line in block.splitlines()])
def test_a_line_has_the_form_of_a_printed_one(line: str, printed: list[str]) -> None:
    # A run is named after its target.
    pattern = re.escape(form(line).replace("prod-", ANY)).replace(ANY, ".*")
    assert any(re.fullmatch(pattern, one) for one in printed), "\n".join(printed)


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="code/lib is for this Python")
def test_code_that_needs_a_package_of_another_python_ends_as_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "made").mkdir()
    vendored = installed_wheel(tmp_path / "made", "pillow", "3.12", platform.machine())
    unpack([vendored], tmp_path / "code" / "lib")
    (tmp_path / "code" / "transforms.py").write_text("\n" * 5 + "from PIL import _imaging\n")
    (tmp_path / "code" / "inference.py").write_text("import transforms\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    ran = run_in(tmp_path, sys.executable, "-c", STARTED)
    page = (ROOT / "docs" / "local.md").read_text(encoding="utf-8")
    block = page.partition("### The image's Python")[2].partition("```text\n")[2]
    shown = " ".join(block.partition("```")[0].split())
    pattern = re.escape(form(shown)).replace("…", ".*")
    assert re.match(pattern, form(" ".join(ran.stdout.split()))), ran.stdout + ran.stderr
