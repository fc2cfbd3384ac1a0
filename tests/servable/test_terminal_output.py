"""What reaches a terminal: no control character of data, whatever command prints it; our own styles do."""

import io
import itertools
import json
import re
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.progress import Progress
from rich.table import Table

from servable import app
from servable import main as command
from servable.console import hidden
from servable.console.findings import echo_styled
from servable.console.lines import EscapingConsole
from servable.console.terminal import escape_controls, escape_name, escape_output
from servable.doctor import command as doctor_command
from servable.doctor.command import doctor
from servable.doctor.machine import CheckResult
from servable_local.aws import command as local_aws
from servable_local.container.launch import EndpointProcess, UnpackFolder
from tests.checkouts import ROOT
from tests.conftest import VALID
from tests.servable.replay.captures import request, written
from tests.servable.tune.servers import Server

# Sets the title, rings, sets a background, begins the line anew, clears the screen (C1), deletes, turns text.
HOSTILE = "\x1b]0;owned\x07\x1b[45m\r\x9b2J\x7f\u202e"
SHOWN = r"\x1b]0;owned\x07\x1b[45m\r\x9b2J\x7f\u202e"
# Source: https://www.unicode.org/reports/tr9/, Bidi_Control (2026-11-24)
ORDERING = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
# Sequences of ours: styles but backgrounds, moves and erasures of a live line, the cursor.
OURS = re.compile(
    r"\x1b\[(?:0|1|2|3[1-6]|1;3[1-6]|\d{1,3}A|2K|\?25[lh]|38;5;\d+)m?|\r(?=\x1b\[(?:2K|1A))"
)
BESIDE = re.compile(
    r"\bsecho\(|terminal import .*\bunwrap_stream\b|rich\.console import .*Console\b|\bConsole\(|get_console|"
    r"rich import|std(out|err)\.buffer"
)


class Terminal(io.TextIOWrapper):
    """A stream that says that it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__(io.BytesIO(), encoding=encoding, write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def shown(self) -> str:
        content: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return content.decode()


Run = Callable[..., str]
Begin = Callable[..., Terminal]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Begin:
    """`terminal()` makes both standard streams one, to be escaped; pytest takes them back after the test."""

    def begun(encoding: str = "utf-8") -> Terminal:
        shown = Terminal(encoding)
        for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", "200")
        monkeypatch.setattr(sys, "stdout", shown)
        monkeypatch.setattr(sys, "stderr", shown)
        escape_output()
        return shown

    return begun


@pytest.fixture
def run(terminal: Begin) -> Run:
    """`run(*arguments)` of `servable`: everything that it shows."""

    def ran(*arguments: str) -> str:
        shown = terminal()
        with pytest.raises(SystemExit):
            command.main(list(arguments))
        return shown.shown

    return ran


def controls(shown: str) -> str:
    """Control characters that are neither layout nor a sequence of ours."""
    return re.sub(rf"[^\x00-\x08\x0b-\x1f\x7f-\x9f{ORDERING}]", "", OURS.sub("", shown))


@given(st.text(st.characters(max_codepoint=0x2FFF)))
def test_no_control_character_but_layout_is_left_of_any_text_nor_a_second_line_of_a_name(
    text: str,
) -> None:
    assert controls(escape_controls(text)) == ""
    escape_name(text).encode()
    assert len(escape_name(text).splitlines()) <= 1


def test_what_turns_the_order_of_a_text_is_escaped() -> None:
    assert controls(HOSTILE) == "\x1b\x07\x1b\r\x9b\x7f\u202e"  # data are not taken for ours
    for ordering in ORDERING:
        shown = f"a{ascii(ordering)[1:-1]}b"
        text = f"a{ordering}b"
        assert (escape_controls(text), escape_name(text)) == (shown, shown)


@given(
    st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters=ORDERING))
)
def test_other_text_is_shown_as_it_is(text: str) -> None:
    assert (escape_controls(text), escape_name(text)) == (text, text)


def is_escaped(shown: str) -> bool:
    return "owned" in shown and controls(shown) == ""


def rich_table(text: str) -> None:
    table = Table(text)
    table.add_row(text)
    EscapingConsole().print(table)


def rich_progress(text: str) -> None:
    with Progress(console=EscapingConsole(stderr=True)) as bar:
        bar.add_task(text, total=1)


def raised(text: str) -> None:
    try:
        raise RuntimeError(text)
    except RuntimeError:
        sys.excepthook(*sys.exc_info())


WAYS: dict[str, Callable[[str], object]] = {
    "click.echo": click.echo,
    "click.echo, stderr": lambda text: click.echo(text, err=True),
    "a style": lambda text: echo_styled(text, fg="red"),
    "print": print,
    "several lines": lambda text: sys.stderr.writelines([text, text]),
    "a use error": lambda text: click.UsageError(text).show(),
    "a trace": raised,
    "rich, a line": lambda text: EscapingConsole().print(text, style="bold"),
    "rich, a table": rich_table,
    "rich, progress": rich_progress,
}


@pytest.mark.parametrize("way", WAYS)
def test_data_are_escaped_on_each_way_to_the_terminal(terminal: Begin, way: str) -> None:
    stream = terminal()
    WAYS[way](f"name {HOSTILE}")
    assert is_escaped(stream.shown)
    styles = {"a style": "\x1b[31m", "rich, a line": "\x1b[1m", "rich, progress": "\x1b[2K"}
    assert styles.get(way, "") in stream.shown  # our own reach the terminal
    stream = terminal("ascii")
    click.echo(f"é {HOSTILE}")
    assert stream.shown == rf"\xe9 {SHOWN}" + "\n"


@pytest.mark.parametrize("way", ["a style", "rich, a line", "doctor"])
def test_no_color_and_force_color_decide_on_every_way(
    terminal: Begin, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    looks = [CheckResult("Node", "ok", "24")]
    monkeypatch.setattr(doctor_command, "check_machine", lambda root: looks)
    monkeypatch.chdir(ROOT)
    for variables, is_terminal, colored in (
        ("", True, True),
        ("", False, False),
        ("NO_COLOR=1", True, False),
        ("NO_COLOR=", True, True),
        ("FORCE_COLOR=1", False, True),
        ("FORCE_COLOR=", False, False),
        ("FORCE_COLOR=1 NO_COLOR=1", True, False),
    ):
        monkeypatch.setattr(Terminal, "isatty", lambda stream, answer=is_terminal: answer)
        stream = terminal()
        for variable in variables.split():
            monkeypatch.setenv(*variable.split("="))
        if way == "doctor":
            doctor.main([], standalone_mode=False)
        else:
            WAYS[way]("name")
        assert bool(re.search(r"\x1b\[[0-9;]*m", stream.shown)) == colored
        assert r"\x1b" not in stream.shown  # our own styles are not escaped


def test_doctor_wraps_a_remedy_on_a_terminal(
    terminal: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = "write " * 40 + "the end"
    looks = [CheckResult("Node", "problem", "none", remedy)]
    monkeypatch.setattr(doctor_command, "check_machine", lambda root: looks)
    monkeypatch.chdir(ROOT)
    stream = terminal()
    monkeypatch.setenv("COLUMNS", "80")
    assert doctor.main([], standalone_mode=False) == 1
    lines = stream.shown.splitlines()
    assert max(map(len, lines)) <= 80 + len("\x1b[31m\x1b[0m")
    assert " ".join(stream.shown.split()).count(remedy) == 1


@pytest.mark.parametrize("name", sorted(command.COMMANDS))
def test_each_command_escapes_a_wrong_option(run: Run, name: str) -> None:
    assert is_escaped(run(name, f"--{HOSTILE}"))


def test_the_scripts_of_the_app_and_the_local_aws_escape_why_they_do_not_start(
    terminal: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = terminal()
    sys.stdout, sys.stderr = stream, stream  # it escapes by itself
    assert local_aws.main(["up", f"--{HOSTILE}"]) == 2
    assert is_escaped(stream.shown)
    stream = terminal()
    sys.stdout, sys.stderr = stream, stream
    refused = Mock(side_effect=hidden.HiddenPackageError(HOSTILE))
    monkeypatch.setattr(hidden, "reject_hidden_packages", refused)
    monkeypatch.setattr(app, "end_on_ctrl_c", lambda: None)
    with pytest.raises(SystemExit):
        app.main()
    assert stream.shown == f"{SHOWN}\n"


@pytest.fixture
def hostile_project(prod: Path) -> Path:
    """Environments whose keys, values and file names are hostile, beside a good one."""
    key = json.dumps(HOSTILE).replace("\x7f", "\\u007f").replace("\\x9b", "\\u009b")
    assert tomllib.loads(f"{key} = {key}") == {HOSTILE: HOSTILE}
    wrong = f"{VALID}\n[models.{key}]\nsaved_model = {key}\n"
    (prod / "environments" / "wrong.toml").write_text(wrong)
    (prod / "environments" / f"{HOSTILE}.toml").write_text("x = 1")
    return prod


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),
        ("check", "prod", "--set", f"models.ranker.saved_model={HOSTILE}"),
        ("check", "--explain"),
        ("check", "--json"),
        ("cost", "wrong"),
        ("plan", HOSTILE, "--against", "HEAD"),
        ("package", "wrong"),
        ("rehearse", HOSTILE),
        ("serve", "wrong"),
        ("init", HOSTILE),
        ("history", HOSTILE),
        ("verify", HOSTILE),
        ("report", HOSTILE),
        ("replay", "http://127.0.0.1:9", "--captured", HOSTILE),
        ("load", "http://127.0.0.1:9", "--body", HOSTILE),
        ("new", f"a/{HOSTILE}/b"),
    ],
    ids=lambda arguments: " ".join(arguments).replace(HOSTILE, "HOSTILE"),
)
def test_hostile_environments_and_names_are_escaped(
    run: Run, hostile_project: Path, arguments: tuple[str, ...]
) -> None:
    assert is_escaped(run(*arguments))


def test_hostile_archives_answers_and_captured_keys_are_escaped(
    run: Run, hostile_project: Path
) -> None:
    with tarfile.open("model.tar.gz", "w:gz") as archive:
        archive.addfile(tarfile.TarInfo(f"1/{HOSTILE}"))
    assert is_escaped(run("package", "--list", "model.tar.gz"))
    answer = json.dumps({"error": HOSTILE}, ensure_ascii=False) + HOSTILE
    for status in (200, 400):
        told = (status, {"Content-Type": "application/json"}, answer.encode())
        with Server(told) as server:
            words = ("--url", server.url, "--body", "golden/request-rows.json")
            assert is_escaped(run("invoke", "prod", *words))

    body = json.dumps({"inputs": {HOSTILE: [1.0]}}).encode()
    written(hostile_project / f"{HOSTILE}.jsonl", request(body=body))
    assert is_escaped(run("golden", "prod", "--from-captured", f"{HOSTILE}.jsonl"))
    written(hostile_project / "a.jsonl", request(body=b'{"inputs": {"a\\ngate: met": [1.0]}}'))
    assert "\ngate: met" not in run("golden", "prod", "--from-captured", "a.jsonl")

    (hostile_project / "environments" / "prod.toml").unlink()
    shown = run("check", "--run")
    assert ("owned: not run" in shown.replace(SHOWN, "owned"), controls(shown)) == (True, "")


def test_hostile_lines_of_a_containers_log_are_escaped(terminal: Begin) -> None:
    stream = terminal()
    script = f"import sys; sys.stderr.write({HOSTILE!r} + chr(10) + 'end')"
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=-1, stdout=-1, stderr=-1, env={"PYTHONIOENCODING": "utf-8"}
    )  # fmt: skip
    EndpointProcess(process, UnpackFolder()).close()
    assert stream.shown == f"{SHOWN}\nend"


def test_nothing_prints_beside_what_escapes() -> None:
    """Styles and rich's consoles get the plain stream: only the modules that escape for them may take it."""
    packages = (ROOT / "servable", ROOT / "packages/servable-local/servable_local/aws")
    files = itertools.chain(*(package.rglob("*.py") for package in packages))
    beside = {str(file.relative_to(ROOT)) for file in files if BESIDE.search(file.read_text())}
    assert beside == {"servable/console/lines.py", "servable/console/findings.py"}
