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
from types import CodeType, FrameType

ROOT = Path(__file__).resolve().parents[1]
COUNTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def lines_run(command: str) -> Counter[str]:
    """Lines by file of the functions, methods and lambdas that ran; of nested ones each line once."""
    entered: set[CodeType] = set()

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(frame.f_code)

    streams = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
    sys.setprofile(profile)
    with (
        tempfile.TemporaryDirectory() as folder,
        streams[0],
        streams[1],
        contextlib.suppress(SystemExit),
    ):
        if command == "check":
            from servable.main import main

            main(["check", "prod"])
        else:
            from stacks.app import synthesise

            synthesise(ROOT, outdir=folder)
    sys.setprofile(None)
    begins = {
        (code.co_filename, code.co_firstlineno) for code in entered if code.co_name[-1] != ">"
    }
    begins |= {
        (code.co_filename, code.co_firstlineno) for code in entered if "lambda" in code.co_name
    }
    lines: Counter[str] = Counter()
    for name in {name for name, _ in begins}:
        file = Path(name)
        if file.is_relative_to(ROOT) and not file.relative_to(ROOT).parts[0].startswith("."):
            run: set[int] = set()
            for node in ast.walk(ast.parse(file.read_bytes())):
                if isinstance(node, COUNTED):
                    first = min(
                        [
                            node.lineno,
                            *(each.lineno for each in getattr(node, "decorator_list", ())),
                        ]
                    )
                    if (name, first) in begins:
                        run.update(range(first, (node.end_lineno or first) + 1))
            lines[str(file.relative_to(ROOT))] = len(run)
    return lines


if __name__ == "__main__":
    counted = lines_run(sys.argv[1])
    for file, count in counted.most_common() if "--list" in sys.argv else ():
        print(f"{count:6} {file}", file=sys.stderr)
    print(counted.total())
