"""Random single mutations of a folder's sources, and how many of them its quick tests notice.

python -m scripts.mutants infra/policy tests/policy --count 40 --seed 7

A mutation changes a comparison, a number by one or the sign of a condition, or removes a statement
of a function, in a copy of the repository. Survivors have to be read: some change no behaviour.
"""

import argparse
import ast
import importlib
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from operator import setitem
from pathlib import Path

import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).resolve().parents[1]
LINKED = (".git", ".venv", "node_modules")
# Imported once for all runs: these start no threads or processes, which a fork would not inherit.
IMPORTED = (
    "boto3",
    "click",
    "hypothesis.strategies",
    "libcst",
    "moto",
    "numpy",
    "pydantic",
    "rich",
)
# A failure is enough: hypothesis neither shrinks its example nor keeps it for the next mutation.
PHASES = (Phase.explicit, Phase.generate)
settings.register_profile("mutants", deadline=None, database=None, phases=PHASES)
PLUGINS = ("-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-profile=mutants")
ORDER: tuple[type[ast.cmpop], ...] = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
OPERATORS = (ORDER, (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot), (ast.In, ast.NotIn))
SIMPLE = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Raise | ast.Delete
REMOVED = SIMPLE | ast.Break | ast.Continue | ast.Assert | ast.If | ast.For | ast.Expr
KEPT = ("'", '"', "log", "_log")  # docstrings and logging


def mutations(tree: ast.AST, draw: random.Random) -> Iterator[tuple[int, Callable[[], None]]]:
    """The line of each possible mutation, and a call that carries it out in the tree."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    in_functions = {id(node) for function in functions for node in ast.walk(function)}
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Compare):
            for index, operator in enumerate(node.ops):
                group = next(group for group in OPERATORS if type(operator) in group)
                other = draw.choice([kind for kind in group if kind is not type(operator)])
                yield line, partial(setitem, node.ops, index, other())
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield (
                line,
                partial(setattr, node, "value", eval(f"{node.value!r} {draw.choice('+-')} 1")),
            )
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield line, partial(setattr, node, "operand", ast.UnaryOp(node.op, node.operand))
        elif isinstance(node, ast.If | ast.While | ast.IfExp | ast.Assert):
            yield line, partial(setattr, node, "test", ast.UnaryOp(ast.Not(), node.test))
        elif isinstance(node, ast.comprehension):
            for index, test in enumerate(node.ifs):
                yield test.lineno, partial(setitem, node.ifs, index, ast.UnaryOp(ast.Not(), test))
        for _, block in ast.iter_fields(node) if id(node) in in_functions else ():
            for index, statement in enumerate(block if isinstance(block, list) else ()):
                if isinstance(statement, REMOVED) and not ast.unparse(statement).startswith(KEPT):
                    yield statement.lineno, partial(setitem, block, index, ast.Pass())


def run(copy: Path, tests: list[str]) -> None:
    """pytest in the copy, from which this process and those that it starts import everything."""
    os.setsid()
    os.chdir(copy)
    sys.path[:] = [str(copy), *(folder for folder in sys.path if folder not in ("", str(ROOT)))]
    os.environ["PYTHONPATH"] = str(copy)
    del sys.modules["scripts"]
    for stream in (1, 2):
        os.dup2(os.open("pytest.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    os._exit(pytest.main(["-x", "-m", "not long", *PLUGINS, *tests]))


def passes(copy: Path, tests: list[str], seconds: float) -> bool:
    (copy / "pytest.txt").unlink(missing_ok=True)
    process = multiprocessing.get_context("fork").Process(target=run, args=(copy, tests))
    process.start()
    process.join(seconds)
    if process.exitcode is None:
        os.killpg(process.pid or 0, signal.SIGKILL)  # with what the tests started
    return process.exitcode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", help="Folder of sources, or a file.")
    parser.add_argument("tests", nargs="+", help="Files or folders of tests.")
    parser.add_argument("--count", type=int, default=40, help="Number of mutations (default: 40).")
    parser.add_argument("--seed", type=int, default=0, help="Seed of the draw (default: 0).")
    options = parser.parse_args()
    possible = []
    for file in sorted((ROOT / options.folder).rglob("*.py")) or [ROOT / options.folder]:
        path, text = file.relative_to(ROOT), file.read_text(encoding="utf-8")
        numbers = range(len(list(mutations(ast.parse(text), random.Random()))))
        possible += [(path, text, number) for number in numbers]
    draw = random.Random(options.seed)
    drawn = draw.sample(possible, min(options.count, len(possible)))
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder).resolve() / "copy"
        shutil.copytree(ROOT, copy, symlinks=True, ignore=shutil.ignore_patterns(*LINKED))
        for name in LINKED:
            (copy / name).symlink_to(ROOT / name)
        for name in IMPORTED:
            importlib.import_module(name)
        if not passes(copy, options.tests, 600):
            sys.exit((copy / "pytest.txt").read_text() + "The tests fail without a mutation.")
        killed = 0
        for run_number, (path, text, number) in enumerate(drawn):
            tree = ast.parse(text)
            before = ast.unparse(tree).splitlines()
            line, mutate = list(mutations(tree, draw))[number]
            mutate()
            after = ast.unparse(tree).splitlines()
            (copy / path).write_text("\n".join(after), encoding="utf-8")
            # Python knows bytecode by the second and the size of its source.
            os.utime(copy / path, (run_number, run_number))
            survived = passes(copy, options.tests, 300)
            shutil.copy2(ROOT / path, copy / path)
            killed += not survived
            change = next(pair for pair in zip(before, after, strict=False) if len(set(pair)) > 1)
            print(
                "SURVIVED" if survived else "killed",
                f"{path}:{line}",
                *change,
                sep="  ",
                flush=True,
            )
    print(f"{killed} of {len(drawn)} killed ({killed / len(drawn):.0%}), seed {options.seed}")


if __name__ == "__main__":
    main()
