"""Runs `make check`: every static check, one line each, and the output of those that fail."""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

# The types' check and the templates', a core each; then the others.
AT_ONCE = 2
ROOT = Path(__file__).resolve().parents[1]
PYTHON = [sys.executable]
LOCKS = "requirements.txt requirements/* package-lock.json .npmrc pyproject.toml"
ADDRESS = r'"resolved"|^\s*(--|-i )(extra-)?index-url|^\s*--find-links|^registry\s*='
# The longest first: the others are through before it.
CHECKS = {
    "templates": [*PYTHON, "scripts/check_templates.py"],
    "types": ["mypy"],
    "style": ["ruff", "check", "."],
    "format": ["ruff", "format", "--check", "--quiet", "."],
    "imports": ["lint-imports", "--no-cache"],
    "structure": [*PYTHON, "-m", "scripts.check_structure"],
    "generated": [*PYTHON, "scripts/generate.py", "--check"],
    "pages": [*PYTHON, "-m", "tests.docs.check_pages"],
    # No file names a registry's address, so that installing works behind any mirror.
    "locks": ["sh", "-c", f"! grep -nE '{ADDRESS}' {LOCKS}"],
}


def run_check(command: list[str]) -> tuple[subprocess.CompletedProcess[str], float]:
    """Run a command, and return the finished process and the seconds it took."""
    start = time.monotonic()
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ran, time.monotonic() - start


def main() -> int:
    failed = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(run_check, command): name for name, command in CHECKS.items()}
        for done in as_completed(running):
            name, (ran, seconds) = running[done], done.result()
            word = "FAILED" if ran.returncode else "ok"
            print(f"{name:10} {word:6} {seconds:5.1f} s", flush=True)
            if ran.returncode:
                failed.append(name)
                print((ran.stdout + ran.stderr).strip(), file=sys.stderr, flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
