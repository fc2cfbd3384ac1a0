"""docs/tutorial.md, typed as it stands into a fresh copy of the project."""

import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.checkouts import PATH, ROOT, Ran, checkout, run_in
from tests.packaging.wheelhouse import installed_wheel


def typed(text: str) -> list[str]:
    """The lines of the fenced commands, and one for each table that is written at the end of a file."""
    lines: list[str] = []
    fenced = r"(?:at the end of `(\S+)`:\n\n)?```(sh|toml)\n(.*?)```"
    for file, language, block in re.findall(fenced, text, re.DOTALL):
        if language == "sh":
            lines += block.splitlines()
        elif file:
            lines.append(f"cat >> {file} <<'END'\n\n{block}END")
    return lines


PAGE = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
_BEFORE, _, _REST = PAGE.partition("## Send images and return labels\n")
PICTURES, _, _AFTER = _REST.partition("\n## ")
TYPED = typed(_BEFORE + _AFTER)
ADDRESS = "http://127.0.0.1:8080"  # on the page; the test takes a free port
# The page's second terminal: ready when it prints its address, ended when the answer is there.
SERVED = """\
{line} --port 0 > serve.txt 2>&1 &
second_terminal=$!
for _ in $(seq 600); do grep -q 'http://' serve.txt && break; sleep 0.2; done
address=$(grep -o 'http://[0-9.:]*' serve.txt | head -1)
"""
# Where a computer has other work, nothing may be compared: a formula is measured, all else is the command's
# own. tests/servable/tune/test_local_trials.py measures a container.
TUNED = "python -m tests.servable.tune.formula_trials trials.log {words} || [ $? -ne 2 ]"
AND_ENDED = "{line}\nkill $second_terminal; wait $second_terminal || true\n"
MINE = "../my-service"  # the project that the pages make


def not_printed(output: str, page: str) -> list[str]:
    """Lines of the page's outputs that `output` lacks; … on the page stands for anything."""
    blocks = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    patterns = {line: re.escape(line).replace("…", ".*") for line in lines if line != "…"}
    return [line for line, it in patterns.items() if not re.search(f"^{it}", output, re.MULTILINE)]


def script(commands: list[str]) -> str:
    """What one shell runs: every line of the page, said before it is run."""
    lines = ["set -e -o pipefail", "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"]
    for line in commands:
        lines.append(f"echo; echo {shlex.quote('$ ' + line)}")
        if line.startswith("servable serve "):
            lines.append(SERVED.format(line=line))
        elif line.startswith("servable tune "):
            lines.append(TUNED.format(words=line.removeprefix("servable ")))
        elif ADDRESS in line:
            lines.append(AND_ENDED.format(line=line.replace(ADDRESS, "$address")))
        else:
            lines.append(line)
    return "\n".join(lines)


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """A fresh copy. Ends what a page that stops half way leaves running."""
    project = checkout(folder / "project")
    for installed in (".venv", "node_modules"):
        (project / installed).symlink_to((ROOT / installed).resolve())
    yield project
    run(project, f"servable --project {MINE} local down", timeout_seconds=60)


def run(project: Path, text: str, *, timeout_seconds: float, more: Mapping[str, str] = {}) -> Ran:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment = {**kept, "PATH": PATH, "PYTHONPATH": str(project), **more}
    # It ends the whole group, the second terminal too, where ours would end the shell alone.
    ending = ("timeout", "--kill-after=10", f"{timeout_seconds}")
    bash, seconds = ("bash", "-c", f"exec 2>&1\n{text}"), timeout_seconds + 20
    return run_in(
        project, *ending, *bash, environment=environment, given="", timeout_seconds=seconds
    )


def test_the_tutorial_goes_from_the_model_to_the_verified_deployment() -> None:
    wanted = ["init", "check", "serve", "tune", "deploy", "verify"]
    assert [word for line in TYPED if (word := line.split()[1]) in wanted] == wanted


Followed = tuple[Path, Ran]
"""The copy that the tutorial but for its pictures was typed into, and what came of it."""


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Followed]:
    with copied(tmp_path_factory.mktemp("tutorial")) as copy:
        yield copy, run(copy, script(TYPED), timeout_seconds=540)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_command_of_the_tutorial_works_as_it_stands(followed: Followed) -> None:
    _, ran = followed
    assert ran.returncode == 0, ran.stdout[-6000:]
    assert not not_printed(ran.stdout, _BEFORE + _AFTER), ran.stdout[-6000:]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_section_on_pictures_works(followed: Followed, tmp_path: Path) -> None:
    # A folder instead of PyPI: Pillow for the image's Python, and for this one.
    for python in {"3.12", ".".join(map(str, sys.version_info[:2]))}:
        installed_wheel(tmp_path, "pillow", python, platform.machine())
    index = dict.fromkeys(("UV_FIND_LINKS", "PIP_FIND_LINKS"), str(tmp_path))
    index |= {"UV_OFFLINE": "1", "PIP_NO_INDEX": "1", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    copy, _ = followed
    service = (copy / MINE).resolve()  # with the model and the file that it goes on from
    (service / "pictures").mkdir()
    files = {"python": "pictures/transforms.py", "toml": "environments/pictures.toml"}
    for language, file in files.items():
        (service / file).write_text(PICTURES.partition(f"```{language}\n")[2].partition("```")[0])
    commands = script(["cd " + MINE, *typed(PICTURES)])
    ran = run(copy, commands, timeout_seconds=540, more=index)
    assert (ran.returncode, "pictures  as deployed" in ran.stdout) == (0, True), ran.stdout[-6000:]
    # Changed, replayed, caught, mended.
    assert not not_printed(ran.stdout, PICTURES), ran.stdout[-6000:]
    assert len(json.loads((service / "golden/pictures/answer.json").read_text())["labels"]) == 3
