"""Writes the models and the code of the observed cases as the archives that a container serves."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from model_packaging.inputs import build_handler_tree
from tests.conformance.archives import pack
from tests.servable_local.container.observed_cases import OBSERVED, ContainerSetup

# The models of multi-model mode: name -> model, code.
_MEMBERS = {
    "alpha": ("mult", "handler"),
    "beta": ("mult", "code_transforms"),
    "gamma": ("text", ""),
    "delta": ("mult", "code_io"),
}


def write_containers(wanted: Iterable[ContainerSetup], folder: Path) -> None:
    """Write folder/IMAGE/NAME in the layout of /opt/ml, and NAME.tar.gz, for each container.

    Multi-model containers get only folders NAME/MODEL/model. 2.20's `echo`, and further models of its
    `multi-model`, are for the further requests. TensorFlow builds the models in about 20 s.
    """
    with tempfile.TemporaryDirectory() as models:
        script = [sys.executable, str(OBSERVED / "models.py.txt"), models]
        run = subprocess.run(script, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stderr
        for container in wanted:
            target = folder / container.image / container.name
            if container.is_multi_model:
                for name, (model, code) in _MEMBERS.items():
                    shutil.copytree(Path(models) / model, target / name / "model")
                    _add_code(code, target / name / "model")
                continue
            shutil.copytree(models, target)
            _add_code(container.code, target)
            pack_folder(target)
    for name, file, text in (
        ("onlycode", "code/lib/x.py", ""),
        ("nohandler", "code/inference.py", "x = 1\n"),
        ("nover", "readme.txt", ""),
    ):
        model = folder / "2.20/multi-model" / name / "model"
        if name != "nover":
            shutil.copytree(folder / "2.20/plain/mult/1", model / "1")
        (model / file).parent.mkdir(parents=True, exist_ok=True)
        (model / file).write_text(text, encoding="utf-8")


def pack_folder(folder: Path) -> Path:
    """Write an archive of what is in the folder beside it; return it."""
    entries = {entry.name: entry for entry in sorted(folder.iterdir())}
    return pack(folder.with_name(f"{folder.name}.tar.gz"), folders=entries)


def _add_code(code: str, target: Path) -> None:
    """Write the code that `ContainerSetup.code` names below `target`."""
    if not code:
        return
    if code in ("handler", "code_transforms"):
        for entry in build_handler_tree(None).entries:
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
