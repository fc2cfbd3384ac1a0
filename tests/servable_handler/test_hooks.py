"""transforms.py as the handler finds it, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def loaded(folder: Path, transforms: str | None) -> subprocess.CompletedProcess[str]:
    if transforms is not None:
        (folder / "transforms.py").write_text(transforms)
    code = (
        f"import sys, pathlib; sys.path.insert(0, {str(ROOT)!r})\n"
        "from servable_handler.hooks import load_hooks\n"
        f"hooks = load_hooks(pathlib.Path({str(folder)!r}))\n"
        "print(hooks.preprocess is not None, hooks.postprocess is not None)"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False
    )


BOTH = "from servable_handler.hooks import InputError\npreprocess = postprocess = print"


@pytest.mark.parametrize(("transforms", "found"), [
    (None, "False False"),
    ("def preprocess(body, context): ...", "True False"),
    ("def postprocess(tensors, context): ...", "False True"),
    (BOTH, "True True"),
], ids=["none", "preprocess", "postprocess", "both"])  # fmt: skip
def test_the_hooks_that_are_there_are_found(
    transforms: str | None, found: str, tmp_path: Path
) -> None:
    assert loaded(tmp_path, transforms).stdout.strip() == found


@pytest.mark.long
def test_transforms_without_a_hook_or_that_do_not_import_do_not_start(tmp_path: Path) -> None:
    ran = loaded(tmp_path, "def pre_process(): ...")
    assert "transforms.py defines neither preprocess nor postprocess" in ran.stderr
    assert "ZeroDivisionError" in loaded(tmp_path, "1 / 0").stderr
