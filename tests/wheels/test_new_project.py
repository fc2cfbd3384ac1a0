"""A newcomer's whole way, from the built wheels alone, in a folder outside of any checkout."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.checkouts import ROOT, run_in, succeed_in
from tests.wheels.environment import make

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
# Twice the same but for what it answers: x + 1, then x + 2.
EXPORT = """\
import keras, sys
inputs = keras.Input((3,), name="x")
outputs = keras.layers.Dense(3, kernel_initializer="identity", name="y")(inputs)
model = keras.Model(inputs, outputs)
model.layers[-1].bias.assign([float(sys.argv[1])] * 3)
model.export("my_model", verbose=False)
"""
BODY = '{"inputs": {"x": [[0.0, 0.0, 0.0]]}}'
INVOKE = ("servable", "invoke", "my-model", "--body", "body.json")


@dataclass
class Newcomer:
    """A shell in a folder: what each command printed, by a name for the step."""

    folder: Path
    environment: dict[str, str]
    said: dict[str, str] = field(default_factory=dict)

    def type(self, step: str, *command: str) -> str:
        options = {"environment": self.environment, "given": "", "timeout_seconds": 150}
        ran = succeed_in(self.folder, *command, **options)
        self.said[step] = ran.stdout + ran.stderr
        return ran.stdout

    def invoked(self, step: str, *where: str) -> None:
        """Keeps the numbers alone."""
        outputs = json.loads(self.type(step, *INVOKE, *where))["outputs"]
        self.said[step] = json.dumps(outputs)

    def served(self) -> None:
        """`servable serve` as in a second terminal: asked once, and ended with Ctrl-C."""
        command = ["servable", "serve", "my-model", "--port", "0", "--json"]
        with subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                self.invoked("serve", "--url", json.loads(process.stdout.readline())["url"])
            finally:
                process.send_signal(2)
                process.wait(30)


@pytest.fixture(scope="module")
def way(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Newcomer]:
    """Everything that the README of a new project says, typed."""
    place = tmp_path_factory.mktemp("elsewhere")
    programs = make(place / "venv", wheels, ["servable-endpoints[synth,local]"])
    left_out = ("AWS_", "PYTHON", "VIRTUAL_ENV", "CDK_")
    kept = {name: one for name, one in os.environ.items() if not name.startswith(left_out)}
    folder = place / "my-service"
    path = f"{programs}:{folder}/node_modules/.bin:/usr/bin:/bin"
    here = Newcomer(place, {**kept, "PATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"})
    here.type("new", "servable", "new", "my-service")
    here.folder = folder
    _install_cli(here)
    here.type("export", "python", "-c", EXPORT, "1")
    here.type("init", "servable", "init", "my_model")
    (folder / "body.json").write_text(BODY)
    here.type("check", "servable", "check")
    here.type("package", "servable", "package", "my-model")
    here.served()
    up = json.loads(here.type("up", "servable", "local", "up", "--json"))
    here.environment |= up["environment"]
    try:
        _deployed(here)
        yield here
    finally:
        here.type("down", "servable", "local", "down")


def _install_cli(here: Newcomer) -> None:
    command = ("npm", "ci", "--offline", "--no-audit", "--no-fund")
    ran = run_in(here.folder, *command, environment=here.environment)
    here.said["npm"] = "" if ran.returncode == 0 else ran.stderr[-500:] or "failed"
    if ran.returncode:
        shutil.rmtree(here.folder / "node_modules", ignore_errors=True)
        (here.folder / "node_modules").symlink_to((ROOT / "node_modules").resolve())


def _deployed(here: Newcomer) -> None:
    deploy = ("cdk", "deploy", "my-model/*", "--require-approval", "never")
    here.type("doctor", "servable", "doctor", "my-model")
    here.type("bootstrap", "cdk", "bootstrap", "aws://123456789012/us-east-1")
    here.type("deploy", *deploy)
    here.invoked("first")
    here.type("verify", "servable", "verify", "my-model")  # init kept the answer
    here.type("export again", "python", "-c", EXPORT, "2")
    here.type("plan", "servable", "plan", "my-model")
    here.type("deploy again", *deploy)
    here.invoked("second")
    here.type("restore", "servable", "history", "my-model", "--restore", "1", "--write")
    here.type("deploy back", *deploy)
    here.invoked("back")
    here.type("history", "servable", "history", "my-model")


def test_npm_installs_the_cdk_cli_that_the_lock_names(way: Newcomer) -> None:
    if way.said["npm"]:
        pytest.skip(f"npm's cache has no aws-cdk, and nothing is fetched: {way.said['npm']}")
    wanted = json.loads((way.folder / "package.json").read_text())["devDependencies"]["aws-cdk"]
    assert wanted in way.type("version", "cdk", "--version")


def test_a_newcomer_deploys_updates_and_restores_from_wheels_alone(way: Newcomer) -> None:
    code = "import infra, stacks, servable, servable_local as a; print(infra, stacks, servable, a)"
    assert str(ROOT) not in way.type("imports", "python", "-c", code)
    assert way.said["check"].startswith("my-model  ok,")
    assert "environments/" not in way.said["check"]
    assert "\nproblem" not in f"\n{way.said['doctor']}"
    assert "bootstrapped (no changes)" in way.said["bootstrap"]
    assert way.said["serve"] == way.said["first"]
    assert "1.0, 1.0, 1.0" in way.said["first"]
    assert way.said["verify"].startswith("my-model  as deployed\n")
    assert "2.0, 2.0, 2.0" in way.said["second"]
    assert way.said["back"] == way.said["first"]

    beside = {path.name for path in way.folder.parent.iterdir()}
    assert beside == {"venv", "my-service"}
    assert (way.folder / ".servable" / "aws.json").is_file()
