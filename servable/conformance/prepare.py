"""The models and the code of the observed table, in the form that containers and endpoints take."""

import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click

from model_packaging.request_path import request_path
from servable.conformance.observed_cases import OBSERVED, ContainerSetup
from servable_local.container.settings import PORT_RANGE

MODELS_PATH = "/opt/ml/models"
"""Where SageMaker puts the models of multi-model mode."""
MODELS = ("mult", "words", "cols", "text", "vision", "slow")
"""The models of every other container; no observed case asks `slow`, which the contract does."""
# The models of multi-model mode: name -> model, code.
_MEMBERS = {
    "alpha": ("mult", "handler"),
    "beta": ("mult", "code_transforms"),
    "gamma": ("text", ""),
    "delta": ("mult", "code_io"),
}
_FIRST_PORT = 8080
# SageMaker names a range; a container of its own needs one for several model servers.
_PORTS = {PORT_RANGE: "20000-29999"}


def prepare(wanted: Sequence[ContainerSetup], folder: Path) -> None:
    """Write for each container folder/NAME, in the layout of /opt/ml, and folder/NAME.tar.gz.

    Multi-model containers get only folders NAME/MODEL/model. The models are built with TensorFlow,
    which takes about 20 s. Raises `click.ClickException` if it is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as models:
        script = [sys.executable, str(OBSERVED / "models.py.txt"), models]
        run = subprocess.run(script, capture_output=True, text=True, check=False)
        if run.returncode:
            reason = (run.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise click.ClickException(
                f"the models were not built: {reason}; they need TensorFlow: "
                'pip install "servable-endpoints[local]" (in this repository: make install)'
            )
        for container in wanted:
            target = folder / container.name
            shutil.rmtree(target, ignore_errors=True)
            if container.is_multi_model:
                for name, (model, code) in _MEMBERS.items():
                    shutil.copytree(Path(models) / model, target / name / "model")
                    _add_code(code, target / name / "model")
                continue
            shutil.copytree(models, target)
            _add_code(container.code, target)
            with tarfile.open(folder / f"{container.name}.tar.gz", "w:gz") as tar:
                for entry in sorted(target.iterdir()):
                    tar.add(entry, entry.name)


def start_script(wanted: Sequence[ContainerSetup]) -> str:
    """Return a shell script that starts each container from the image given to it."""
    lines = [
        "#!/bin/sh",
        "# sh start.sh IMAGE: starts the image once for each part of the table, on ports of 127.0.0.1",
        "set -eu",
        "image=${1:?give the address of the image, as docker image ls shows it}",
        'here=$(cd "$(dirname "$0")" && pwd)',
    ]
    for port, container in _ports(wanted):
        inside = MODELS_PATH if container.is_multi_model else "/opt/ml/model"
        words = ["docker run --detach --rm", f"--name servable-conformance-{container.name}"]
        words += [f"--publish 127.0.0.1:{port}:8080"]
        words += [f'--volume "$here/{container.name}:{inside}:ro"']
        words += [
            f"--env {shlex.quote(f'{name}={text}')}"
            for name, text in sorted((_PORTS | dict(container.variables)).items())
        ]
        lines.append(" \\\n  ".join([*words, '"$image" serve']))
    return "\n".join(lines) + "\n"


def asking(wanted: Sequence[ContainerSetup]) -> str:
    """Return the command that sends the requests to the containers of `start_script`."""
    urls = {container.name: f"http://127.0.0.1:{port}" for port, container in _ports(wanted)}
    options = {"plain": "--url ", "handler": "--code-url "}
    words = [f"{options.get(name, f'--at {name}=')}{url}" for name, url in urls.items()]
    return " ".join(["servable conformance", f"--tensorflow {wanted[0].image}", *words])


def _ports(wanted: Sequence[ContainerSetup]) -> list[tuple[int, ContainerSetup]]:
    return list(enumerate(wanted, _FIRST_PORT))


def _add_code(code: str, target: Path) -> None:
    """`code`: as `ContainerSetup.code`."""
    if not code:
        return
    if code in ("handler", "code_transforms"):
        for entry in request_path(None).entries:
            path = target / entry.name
            if entry.path.is_dir():
                path.mkdir(exist_ok=True)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(entry.path, path)
    if code == "code/lib/x.py only":
        (target / "code/lib").mkdir(parents=True)
        (target / "code/lib/x.py").touch()
    elif code != "handler":
        for file in (OBSERVED / code).rglob("*.py.txt"):
            path = target / "code" / file.relative_to(OBSERVED / code).with_suffix("")
            path.parent.mkdir(parents=True, exist_ok=True)
            # The hooks had their old name when it was observed.
            text = file.read_text(encoding="utf-8")
            path.write_text(text.replace("serving.hooks", "servable_handler.hooks"), "utf-8")
