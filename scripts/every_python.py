"""`make test-pythons`: `make test` with every Python that Servable is for and that is found here.

Each has a clone of what is committed in .servable/pythons/, with a .venv of its own that is kept:
4 GB and some minutes the first time. What is not found is said, and is no failure.
"""

import subprocess
import sys
from pathlib import Path

from servable.doctor.machine import python_named

ROOT = Path(__file__).resolve().parents[1]
# pyproject.toml's classifiers: a test compares.
PYTHONS = ("3.11", "3.12", "3.13")


def main(target: str = "test") -> int:
    failed = False
    for version in PYTHONS:
        program = python_named(f"python{version}")
        if program is None:
            print(f"Python {version}: not found here, not tried", flush=True)
            continue
        print(f"Python {version}: {program}", flush=True)
        clone = ROOT / ".servable" / "pythons" / version
        if not clone.exists():
            subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, clone], check=True)
        for words in (["fetch", "--quiet", ROOT, "HEAD"], ["checkout", "--quiet", "FETCH_HEAD"]):
            subprocess.run(["git", "-C", clone, *words], check=True)
        ran = subprocess.run(["make", f"PYTHON={program}", target], cwd=clone, check=False)
        print(f"Python {version}: {'FAILED' if ran.returncode else 'passed'}", flush=True)
        failed |= ran.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
