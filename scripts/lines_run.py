"""Counts the lines of our functions that a command runs: what somebody reads who follows it.

python -m scripts.lines_run check|synth [--list]

A process counts once, because what is imported already is not run again.
"""

import ast
import contextlib
import io
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[1]


def lines_run(command: str) -> Counter[str]:
    """Lines by file of the functions, methods and lambdas that ran; each line counts once."""
    entered: set[tuple[str, int]] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add((frame.f_code.co_filename, frame.f_code.co_firstlineno))

    output = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    with tempfile.TemporaryDirectory() as folder, output[0], output[1]:
        sys.setprofile(profile)
        if command == "check":
            from servable.main import main

            with contextlib.suppress(SystemExit):
                main(["check", "prod"])
        else:
            from stacks.app import synthesise

            synthesise(ROOT, outdir=folder)
        sys.setprofile(None)
    lines: Counter[str] = Counter()
    for name in {name for name, _ in entered}:
        file = Path(name)
        if not file.is_relative_to(ROOT) or file.relative_to(ROOT).parts[0].startswith("."):
            continue
        run: set[int] = set()
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                decorators = getattr(node, "decorator_list", [])
                first = min([node.lineno, *(each.lineno for each in decorators)])
                if (name, first) in entered:
                    run.update(range(first, (node.end_lineno or first) + 1))
        lines[str(file.relative_to(ROOT))] = len(run)
    return lines


if __name__ == "__main__":
    counted = lines_run(sys.argv[1])
    for file, count in counted.most_common() if "--list" in sys.argv else ():
        print(f"{count:6} {file}")
    print(counted.total())
