"""Mutates a folder's sources at random, and counts how many mutations its quick tests notice.

python -m scripts.mutants infra/policy tests/policy --count 40 --seed 7

A mutation changes a comparison, a number by one, or the sign of a condition, or removes a
statement of a function, in a copy of the repository. Read the survivors: some don't change the
behavior.
"""

import argparse
import ast
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from difflib import unified_diff
from functools import partial
from operator import setitem
from pathlib import Path

import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).resolve().parents[1]
LINKED = (".git", ".venv", "node_modules")
# Imported once for all runs: these start no threads, which a fork would not inherit.
IMPORTED = ("boto3", "click", "libcst", "moto", "numpy", "pydantic", "rich.console")
# A failure is enough: hypothesis neither shrinks its example nor keeps it.
settings.register_profile("mutants", deadline=None, database=None, phases=list(Phase)[:3])
OPTIONS = ("-xm", "not long", "-pno:cacheprovider", "-pno:randomly", "--hypothesis-profile=mutants")
OPERATORS = [group.split() for group in ("Lt LtE Gt GtE", "Eq NotEq", "Is IsNot", "In NotIn")]
SIMPLE = ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return | ast.Raise | ast.Delete
REMOVED = SIMPLE | ast.Break | ast.Continue | ast.Assert | ast.If | ast.For | ast.Expr
OUTSIDE = ast.Module | ast.ClassDef  # without these statements nothing would import
KEPT = ("'", '"', "log", "_log")  # docstrings and logging
NEGATED = partial(ast.UnaryOp, ast.Not())


def list_mutations(tree: ast.AST, draw: random.Random) -> Iterator[tuple[int, Callable[[], None]]]:
    """Yield the line of each possible mutation, and a call that applies it to the tree."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Compare):
            for index, name in enumerate(type(operator).__name__ for operator in node.ops):
                others = {*next(group for group in OPERATORS if name in group)} - {name}
                other = getattr(ast, draw.choice(sorted(others)))()
                yield line, partial(setitem, node.ops, index, other)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            number = node.value + draw.choice((-1, 1))  # type: ignore[operator]
            yield line, partial(setattr, node, "value", number)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield line, partial(setattr, node, "operand", NEGATED(node.operand))
        elif isinstance(node, ast.If | ast.While | ast.IfExp):
            yield line, partial(setattr, node, "test", NEGATED(node.test))
        for block in (value for _, value in ast.iter_fields(node) if isinstance(value, list)):
            for index, child in enumerate(block):
                removable = isinstance(child, REMOVED) and not isinstance(node, OUTSIDE)
                if isinstance(node, ast.comprehension):
                    yield child.lineno, partial(setitem, block, index, NEGATED(child))
                elif removable and not ast.unparse(child).startswith(KEPT):
                    yield child.lineno, partial(setitem, block, index, ast.Pass())


def run_tests(copy: Path, tests: list[str]) -> bool:
    """Run pytest in the copy, and return whether it passes.

    It and the processes that it starts import everything from the copy.
    """
    if child := os.fork():
        return os.waitpid(child, 0)[1] == 0
    os.chdir(copy)
    sys.path[:] = [str(copy), *(folder for folder in sys.path if folder not in ("", str(ROOT)))]
    os.environ["PYTHONPATH"] = str(copy)
    del sys.modules["scripts"]
    os.dup2(os.open("pytest.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os._exit(pytest.main([*OPTIONS, *tests]))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", help="Source folder or file.")
    parser.add_argument("tests", nargs="+", help="Test files or folders.")
    parser.add_argument("--count", type=int, default=40, help="Number of mutations (default: 40).")
    parser.add_argument("--seed", type=int, default=0, help="Random seed (default: 0).")
    options = parser.parse_args()
    draw, possible = random.Random(options.seed), []
    for file in sorted((ROOT / options.folder).rglob("*.py")) or [ROOT / options.folder]:
        every = list_mutations(ast.parse(file.read_text(encoding="utf-8")), draw)
        possible += [(file.relative_to(ROOT), number) for number, _ in enumerate(every)]
    drawn, killed = draw.sample(possible, min(options.count, len(possible))), 0
    for name in IMPORTED:
        __import__(name)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder).resolve() / "copy"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LINKED), symlinks=True)
        for name in LINKED:
            (copy / name).symlink_to(ROOT / name)
        if not run_tests(copy, options.tests):
            sys.exit(
                (copy / "pytest.txt").read_text()
                + "The tests fail without a mutation; fix them first."
            )
        for seconds, (path, number) in enumerate(drawn):
            text = (copy / path).read_text(encoding="utf-8")
            tree = ast.parse(text)
            before = ast.unparse(tree).split("\n")
            line, mutate = list(list_mutations(tree, draw))[number]
            mutate()
            after = ast.unparse(tree).split("\n")
            (copy / path).write_text("\n".join(after), encoding="utf-8")
            # Python recognizes old bytecode by the second and the size of its source.
            os.utime(copy / path, (seconds, seconds))
            survived = run_tests(copy, options.tests)
            killed += not survived
            (copy / path).write_text(text, encoding="utf-8")
            print("SURVIVED" if survived else "killed", f"{path}:{line}")
            print(*[*unified_diff(before, after, n=0, lineterm="")][3:], sep="\n", flush=True)
    print(f"{killed} of {len(drawn)} killed ({killed / len(drawn):.0%}), seed {options.seed}")


if __name__ == "__main__":
    main()
