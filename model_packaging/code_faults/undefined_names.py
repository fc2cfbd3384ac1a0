"""Names that nothing defines, and texts that are formatted with too few values: both raise.

Pyflakes finds them. What it cannot know, and what Python never looks up, is left out: annotations
that are not evaluated, branches for another place, and modules that define names while they run.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from model_packaging.handler_functions import CodeFinding
from model_packaging.python_source import (
    asks_where_it_runs,
    last_name,
    never_runs,
    type_parameters,
)

# Names of a module that `dir(builtins)` lacks. https://docs.python.org/3/reference/datamodel.html
_OF_A_MODULE = {"__path__", "__cached__", "__dict__"}
# Code that may define names in a way that no reader sees.
_DEFINES_NAMES = re.compile(
    rb"\bexec\(|\bglobals\(\)|\bbuiltins\.|__builtins__|\blocals\(\)\.update"
)


def undefined_names(file: Path, tree: ast.Module, source: bytes) -> Iterator[CodeFinding]:
    """Names that raise NameError or UnboundLocalError, and formats that raise, each once."""
    # Imported late: most of the commands read no code.
    from pyflakes import checker, messages

    if _DEFINES_NAMES.search(source):
        return
    undefined = (messages.UndefinedName, messages.UndefinedLocal)
    formats = (
        messages.PercentFormatMissingArgument,
        messages.PercentFormatPositionalCountMismatch,
        messages.PercentFormatExpectedMapping,
        messages.StringDotFormatMissingArgument,
    )
    builtins = _OF_A_MODULE | type_parameters(source)
    try:
        problems = checker.Checker(tree, str(file), builtins=builtins, withDoctest=False).messages
    except RecursionError:
        return
    unread = set(_not_evaluated(tree))
    findings: dict[str, CodeFinding] = {}
    for problem in sorted(problems, key=lambda message: (message.lineno, message.col)):
        if isinstance(problem, undefined) and (problem.lineno, problem.col) not in unread:
            name = problem.message_args[0]
            text, remedy = f"uses {name}, which is not defined", "define or import it"
            if isinstance(problem, messages.UndefinedLocal):
                text = f"uses {name} before its function assigns it"
                remedy = f"write `global {name}` into the function, or give the local another name"
            findings.setdefault(text, CodeFinding(file, problem.lineno, text, remedy))
        elif isinstance(problem, formats):
            text = f"fails: {problem.message % problem.message_args}"
            findings.setdefault(text, CodeFinding(file, problem.lineno, text, "give it its values"))
    yield from findings.values()


def _not_evaluated(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """(line, column) of every expression that Python never looks up, or that may be defined by then."""
    deferred = any(
        isinstance(node, ast.ImportFrom)
        and node.module == "__future__"
        and any(alias.name == "annotations" for alias in node.names)
        for node in tree.body
    )
    for node in ast.walk(tree):
        unread: list[ast.AST | None] = []
        if isinstance(node, ast.If) and never_runs(node.test):
            unread += node.body
        elif isinstance(node, ast.If) and asks_where_it_runs(node.test):
            unread += [*node.body, *node.orelse]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # Annotations of local variables are kept nowhere.
            inside = ast.walk(ast.Module(node.body, []))
            unread += [part.annotation for part in inside if isinstance(part, ast.AnnAssign)]
            unread += [node.returns] if deferred else []
        elif isinstance(node, ast.arg | ast.AnnAssign) and deferred:
            unread.append(node.annotation)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            # The round before may have assigned the name that a line above its assignment uses.
            names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
            stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
            unread += [n for n in names if n.id in stored and isinstance(n.ctx, ast.Load)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            unread.append(node)  # a string in the place of a type
        for part in filter(None, unread):
            yield from (
                (expression.lineno, expression.col_offset)
                for expression in ast.walk(part)
                if isinstance(expression, ast.expr)
            )
    for statement in tree.body:
        # A test whether this place has the name. Pyflakes knows `except NameError` itself.
        if isinstance(statement, ast.Try) and any(map(_catches_all, statement.handlers)):
            for expression in ast.walk(ast.Module(statement.body, [])):
                if isinstance(expression, ast.Name):
                    yield expression.lineno, expression.col_offset


def _catches_all(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or last_name(handler.type) in ("Exception", "BaseException")
