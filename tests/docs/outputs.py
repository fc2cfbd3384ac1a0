"""The blocks of pages that show a command with its output, and the same made now.

python -m tests.docs.outputs        writes today's output into every such block

A block is fenced as `console`: `$ servable …`, then its output, line by line. A line that is … stands for
any lines, and … inside a line for any text. The project is this repository's environments and ranker,
committed as `main`.
"""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import click
from click.testing import CliRunner

from servable.main import servable
from tests.checkouts import ROOT
from tests.docs.check_pages import PROGRAMS
from tests.docs.pages import pages
from tests.servable.test_check_against import git

PAGES = ("README.md", "docs/*.md", "examples/*/README.md")
ANY = "…"
# Commands whose output depends on the files alone.
MADE_HERE = ("check", "plan", "cost", "package", "rehearse")
TYPED_HERE = ("check", "cost", "package")  # a plan takes seconds: those with an output are run
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Shown:
    """A command on a page. `lines`: its output there."""

    page: str
    command: str
    lines: tuple[str, ...]

    def holds(self, output: Sequence[str]) -> bool:
        """Whether the lines are those of `output`, but for what an ellipsis stands for."""
        patterns = [
            r"(?:.*\n)*?" if line.strip() == ANY else re.escape(line).replace(ANY, ".*") + r"\n"
            for line in self.lines
        ]
        text = "".join(f"{line.rstrip()}\n" for line in output)
        return re.fullmatch("".join(patterns), text) is not None


def shown() -> Iterator[Shown]:
    """Every command in a console block of a page."""
    for file in sorted({file for pattern in PAGES for file in ROOT.glob(pattern)}):
        for block in _BLOCK.findall(file.read_text(encoding="utf-8")):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, *lines = part.rstrip().split("\n")
                yield Shown(file.relative_to(ROOT).as_posix(), command, tuple(lines))


def made_from_files() -> list[Shown]:
    """Those whose output depends on the files alone."""
    commands = ((one, shlex.split(one.command)) for one in shown())
    # What is live: tests/servable_local/aws/test_adopted_end_to_end.py.
    elsewhere = {"FILE", "--adopt"}
    return [one for one, words in commands if words[1] in MADE_HERE and not elsewhere & {*words}]


def project(folder: Path) -> Path:
    """What the commands are about, committed as the branch main."""
    for name in ("environments", "examples"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "cdk.json", folder)
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "deployed")
    return folder


def typed() -> list[tuple[str, ...]]:
    """The commands in blocks of pages that need files alone and show no output, of environments
    that are here."""
    found = set()
    with_output = {tuple(shlex.split(one.command)) for one in shown()}
    for page in pages(ROOT, PROGRAMS):
        for command in page.commands():
            words = command.words
            made = set(words) & {*page.made, "FILE", "--run", "--local", "--refresh"}
            here = words[0] == "servable" and words[1] in TYPED_HERE and not command.inline
            if here and not made and words not in with_output:
                found.add(words)
    return sorted(found)


def run(words: Sequence[str], folder: Path) -> tuple[int, str]:
    """The exit code of a `servable` command, and what it prints on both streams."""
    with chdir(folder):
        ran = CliRunner().invoke(servable, words[1:], color=False, standalone_mode=False)
    if isinstance(ran.exception, click.ClickException):
        return ran.exception.exit_code, ran.output + ran.exception.format_message()
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    return ran.exit_code or ran.return_value or 0, ran.output


def output(command: str, folder: Path) -> list[str]:
    """The lines that the command prints in `folder`, on both streams."""
    words = shlex.split(command)
    if words[0] != "servable" or words[1] not in MADE_HERE:
        raise ValueError(f"{command}: only servable {', '.join(MADE_HERE)} is run for a page")
    return [line.rstrip() for line in run(words, folder)[1].rstrip().splitlines()]


def rewrite(page: Path, folder: Path) -> None:
    """Put today's output into the console blocks of a page; blocks that hold stay as they are."""
    text = page.read_text(encoding="utf-8")
    for one in made_from_files():
        lines = output(one.command, folder) if page == ROOT / one.page else []
        if lines and not one.holds(lines):
            old, new = ("\n".join((f"$ {one.command}", *each)) for each in (one.lines, lines))
            text = text.replace(old, new)
    page.write_text(text, encoding="utf-8")


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = project(Path(temporary))
        for page in sorted({one.page for one in made_from_files()}):
            rewrite(ROOT / page, folder)


if __name__ == "__main__":
    os.environ.setdefault("GIT_CONFIG_GLOBAL", "/dev/null")
    main()
