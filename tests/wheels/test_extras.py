"""Where an extra is not installed, the command that needs it says which, and how to install it."""

import json
import re
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from servable.console.extras import COMMANDS
from servable.main import COMMANDS as EVERY_COMMAND
from tests.checkouts import succeed_in
from tests.conftest import VALID, make_project
from tests.wheels.environment import required, requirements_of

pytestmark = pytest.mark.long

# Runs commands in a Python that cannot import what the base does not require.
RUNS = """\
import contextlib, importlib.util, io, json, pathlib, sys
blocked, lines = map(json.load, (open(one) for one in sys.argv[1:]))
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name in blocked else find(name, *more)

class Blocker:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker)
from model_packaging import refusal
from servable.main import main

refusal.HOME = pathlib.Path("/nowhere")  # in a clone a message would name `make install`

def run(words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(words)
        except SystemExit as end:
            return end.code, " ".join(out.getvalue().split())

print(json.dumps({line: run(line.split()) for line in lines}))
"""
# Commands that find out on their way what they need -> the extra.
ON_THE_WAY = {"doctor prod": "aws", "package wants": "vendor"}
BASE = ("check prod", "cost prod", "package prod", "doctor", "init model --name first")
BASE += ("rehearse prod --day day.jsonl",)
RECORDED = '{"captureData": {}, "eventMetadata": {"inferenceTime": "2026-11-20T00:00:00Z"}}\n'
Runs = dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Runs:
    """The words of a run -> its exit code and what it said, with nothing but the base."""
    project = tmp_path_factory.mktemp("project")
    make_project(project)
    (project / "code" / "requirements.txt").write_text("six==1.17.0\n")
    (project / "environments" / "prod.toml").write_text(VALID)
    wants = VALID.replace('name = "ranker"', 'name = "wanting"')
    wants = wants.replace("tensorflow =", 'code = "code"\ntensorflow =')
    (project / "environments" / "wants.toml").write_text(wants)
    (project / "day.jsonl").write_text(RECORDED)
    base = set(required(["servable-endpoints"], requirements_of(wheels)))
    blocked = {"servable_client", "servable_local"} | {
        top
        for top, names in packages_distributions().items()
        if not base & {canonicalize_name(one) for one in names}
    }
    lines = [*(f"{one} --help" for one in EVERY_COMMAND), *COMMANDS, *ON_THE_WAY, *BASE]
    for name, content in (("blocked", sorted(blocked)), ("lines", lines)):
        (project / name).write_text(json.dumps(content))
    command = (sys.executable, "-c", RUNS, "blocked", "lines")
    ran = succeed_in(project, *command, timeout_seconds=300)
    parsed: Runs = json.loads(ran.stdout)
    return parsed


def test_without_an_extra_a_command_has_its_help_and_says_how_to_install_it(ran: Runs) -> None:
    for command in EVERY_COMMAND:
        code, said = ran[f"{command} --help"]
        assert (code, f"Usage: servable {command}" in said) == (0, True), said
    for command in COMMANDS:
        code, said = ran[command]
        extra, module = COMMANDS[command]
        wanted = f"servable {command} needs {module}, which isn't installed: "
        # `eval "$(servable local up)"` fails by the word false.
        wanted += f"pip install 'servable-endpoints[{extra}]'" + " false" * (command == "local")
        assert (code, said) == (2, f"Error: {wanted}")
    for command, extra in ON_THE_WAY.items():
        code, said = ran[command]
        wanted = rf"Error: \S.* needs \w+, .*pip install 'servable-endpoints\[{extra}\]'"
        assert (code, bool(re.fullmatch(wanted, said))) == (2, True), said


def test_the_base_does_what_needs_no_extra(ran: Runs) -> None:
    for command in BASE:
        code, said = ran[command]
        assert (code in (0, 1), "Error" in said, "Traceback" in said) == (True, False, False), said
