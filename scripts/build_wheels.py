"""Builds the wheels, offline: `python -m scripts.build_wheels OUT`.

Each is built from a copy of the packages: setuptools writes beside what it reads.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The wheels, each after those that it needs -> the folder of its pyproject.toml.
WHEELS = {
    "servable-tensors": "wheels/servable-tensors",
    "servable-client": "wheels/servable-client",
    "servable-local-code": "wheels/servable-local-code",
    "servable-local": "wheels/servable-local",
    "servable": ".",
}
PACKAGES = (
    "infra",
    "model_packaging",
    "servable",
    "servable_client",
    "servable_handler",
    "servable_local",
    "servable_scaling",
    "servable_tensors",
    "stacks",
)
# The same sources give the same bytes: a zip's times begin here.
EPOCH = "315532800"
BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


def build(out: Path) -> list[Path]:
    """The files of the wheels, in `out`. Raises RuntimeError."""
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="servable-wheels-") as folder:
        copy = Path(folder)
        for name in (*PACKAGES, "wheels"):
            ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
            shutil.copytree(ROOT / name, copy / name, ignore=ignored)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy2(ROOT / name, copy)
        command = [sys.executable, "-c", BUILD, str(out)]
        env = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
        for wheel, place in WHEELS.items():
            if not (copy / place / "LICENSE").exists():
                shutil.copy2(ROOT / "LICENSE", copy / place)
            ran = subprocess.run(command, cwd=copy / place, env=env, capture_output=True, text=True)
            if ran.returncode:
                raise RuntimeError(f"{wheel}: setuptools failed:\n{ran.stdout}{ran.stderr}")
    return sorted(out.glob("servable*.whl"))


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the wheels, without any index.")
    parser.add_argument("out", metavar="OUT", type=Path, help="Folder for the wheels.")
    for file in build(parser.parse_args().out):
        print(f"{file}: {file.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
