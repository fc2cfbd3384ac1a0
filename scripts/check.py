"""`make check`: every static check, one line each; the output of those that fail."""

import subprocess
import sys
import time
from pathlib import Path

# What these print is for somebody to read, also where nothing failed.
NOTED = {"claims"}
ROOT = Path(__file__).resolve().parents[1]
PYTHON = [sys.executable]
CHECKS = {
    "style": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "--quiet", "."],
    "types": ["mypy"],
    "imports": ["lint-imports", "--no-cache"],
    "structure": [*PYTHON, "-m", "scripts.check_structure"],
    "generated": [*PYTHON, "scripts/generate.py", "--check"],
    "pages": [*PYTHON, "-m", "scripts.check_pages"],
    "claims": [*PYTHON, "scripts/claims.py", "--check"],
    "locks": [*PYTHON, "scripts/check_locks.py"],
    "templates": [*PYTHON, "scripts/check_templates.py"],
}


def main() -> int:
    failed = []
    for name, command in CHECKS.items():
        start = time.monotonic()
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        word = "FAILED" if ran.returncode else "ok"
        print(f"{name:10} {word:6} {time.monotonic() - start:5.1f} s", flush=True)
        if name in NOTED and ran.stdout:
            print(ran.stdout.strip(), flush=True)
        if ran.returncode:
            failed.append(name)
            print((ran.stdout + ran.stderr).strip(), file=sys.stderr, flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
