"""Parses Python code for the image's Python, without running it.

The image's Python may differ from ours. This module also finds the code's imports, its top-level
names, and the modules in the standard library of that Python.
"""

import ast
import functools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# Type aliases and type parameters, which Python 3.11 calls invalid.
_NEWER = re.compile(rb"\s*(type\s+\w|class\s+\w+\s*\[|(async\s+)?def\s+\w+\s*\[)")
PYTHON = "3.14"  # instead of an unknown version
_OLDEST = (3, 7)  # that every feature_version of `ast` may be
_ENCODING = re.compile(rb"(?:.*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-_.a-zA-Z0-9]+)")
# Source: https://docs.python.org/3/whatsnew/3.N.html, "Removed" and "New Modules".
_REMOVED = {
    (3, 8): {"macpath"},
    (3, 9): {"_dummy_thread", "dummy_threading"},
    (3, 10): {"formatter", "parser", "symbol"},
    (3, 11): {"binhex"},
    (3, 12): {"asynchat", "asyncore", "distutils", "imp", "smtpd"},
    (3, 13): {
        *{"aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap"},
        *{"msilib", "nis", "nntplib", "ossaudiodev", "pipes", "sndhdr", "spwd", "sunau"},
        *{"telnetlib", "uu", "xdrlib"},
    },
}
_ADDED = {
    (3, 7): {"contextvars", "dataclasses"},
    (3, 9): {"graphlib", "zoneinfo"},
    (3, 11): {"tomllib"},
    (3, 14): {"annotationlib", "compression"},
}
# Code that catches one of these around an import doesn't need the module.
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class PythonSyntaxError(ValueError):
    """An error for code that isn't valid in that Python version; `line` counts from 1.

    `is_newer`: the image's Python may read what this computer's Python rejects.
    """

    def __init__(self, problem: str, line: int, *, is_newer: bool = False) -> None:
        super().__init__(problem)
        self.line = line
        self.is_newer = is_newer


@functools.lru_cache(maxsize=256)
def parse(source: bytes, *, python: str | None) -> ast.Module:
    """Parse the code; `python` is the image's version, such as "3.12", or None if it isn't known.

    Raises `PythonSyntaxError`.
    """
    version = _parse_version(python or PYTHON)
    try:
        return ast.parse(source, feature_version=max(version, _OLDEST))
    except (SyntaxError, ValueError) as error:
        problem, line = getattr(error, "msg", str(error)), getattr(error, "lineno", None) or 1
        # f-strings nest quotes since Python 3.12.
        text = source.split(b"\n")[line - 1 : line]
        is_newer = problem.startswith("f-string") or bool(text and _NEWER.match(text[0]))
        is_newer = is_newer and version > sys.version_info[:2]
        raise PythonSyntaxError(problem, line, is_newer=is_newer) from None
    except (RecursionError, MemoryError):
        raise PythonSyntaxError("is nested too deeply to be parsed", 1) from None


def find_invalid_bytes(source: bytes) -> str | None:
    """Describe the first byte that isn't UTF-8, in code encoded as UTF-8; None if there is none.

    Such a byte can only be in a comment. In other encodings, `parse` finds them. Source:
    https://docs.python.org/3/reference/lexical_analysis.html#encoding-declarations (2026-11-22)
    """
    declared = _ENCODING.match(source)
    try:
        source.decode() if declared is None or b"utf" in declared[1].lower() else None
    except UnicodeDecodeError as bad:
        line = source[: bad.start].count(b"\n") + 1
        return f"line {line} contains byte 0x{source[bad.start]:02x}, which is not UTF-8"
    return None


def _parse_version(python: str) -> tuple[int, int]:
    major, minor = python.split(".")[:2]
    return int(major), int(minor)


@dataclass(frozen=True)
class Import:
    """The module that one import statement names."""

    module: str
    """Dotted, "" for `from . import x`."""
    names: tuple[str, ...]
    """Names that `from module import …` takes; submodules may be among them."""
    line: int
    level: int
    """Leading dots: 0 is absolute."""
    optional: bool
    """Whether its failure is caught, or the container may not run it at all."""


def find_imports(tree: ast.Module) -> Iterator[Import]:
    """Yield every import, including those inside functions: they fail when a request arrives."""
    return _find_imports(tree.body, optional=False)


def find_top_level_names(tree: ast.Module) -> set[str]:
    """Return the names that `getattr` finds on the imported module; "*" after a star import."""
    return set(_find_names(tree.body))


def find_main_only_names(tree: ast.Module) -> set[str]:
    """Return the names defined only in code that the container never runs: `if __name__ == …`."""
    bodies = [node for node in tree.body if isinstance(node, ast.If) and is_never_true(node.test)]
    return {name for node in bodies for name in _find_names(node.body)} - find_top_level_names(tree)


def _find_imports(nodes: list[ast.stmt], *, optional: bool) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), node.lineno, 0, optional)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import(node.module or "", names, node.lineno, node.level, optional)
        elif isinstance(node, ast.Try | ast.TryStar):
            caught = any(_is_import_error_handler(handler) for handler in node.handlers)
            yield from _find_imports(node.body, optional=optional or caught)
            handled = (statement for handler in node.handlers for statement in handler.body)
            yield from _find_imports([*handled, *node.orelse, *node.finalbody], optional=optional)
        elif isinstance(node, ast.If) and is_never_true(node.test):
            yield from _find_imports(node.body, optional=True)
            yield from _find_imports(node.orelse, optional=optional)
        elif isinstance(node, ast.If) and is_environment_check(node.test):
            yield from _find_imports([*node.body, *node.orelse], optional=True)
        elif isinstance(node, ast.With) and any(map(_is_import_error_suppression, node.items)):
            yield from _find_imports(node.body, optional=True)
        else:
            yield from _find_imports(_list_inner_statements(node), optional=optional)


def _find_names(nodes: list[ast.stmt]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            continue  # `handler: Handler` declares, and defines nothing
        elif isinstance(node, ast.If) and is_never_true(node.test):
            yield from _find_names(node.orelse)
        else:
            parts = (part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr))
            for name in (each for part in parts for each in ast.walk(part)):
                if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
                    yield name.id
            yield from _find_names(_list_inner_statements(node))


def _list_inner_statements(node: ast.AST) -> list[ast.stmt]:
    """Return the statements directly inside a node: bodies, else branches, handlers, cases."""
    inside: list[ast.stmt] = []
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.stmt):
            inside.append(part)
        elif isinstance(part, ast.ExceptHandler | ast.match_case):
            inside += part.body
    return inside


def _is_import_error_handler(handler: ast.ExceptHandler) -> bool:
    if isinstance(handler.body[-1], ast.Raise):
        return False  # it only explains the error
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(extract_last_name(caught_type) in _CAUGHT for caught_type in types)


def _is_import_error_suppression(item: ast.withitem) -> bool:
    """Return whether the item is `contextlib.suppress(ImportError)`."""
    call = item.context_expr
    if not isinstance(call, ast.Call) or extract_last_name(call.func) != "suppress":
        return False
    return any(extract_last_name(argument) in _CAUGHT for argument in call.args)


def is_never_true(test: ast.expr) -> bool:
    """Return whether the container never runs this branch: `if TYPE_CHECKING`, or `if __name__ == …`."""
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq):
        return {"__name__", "'__main__'"} == {*map(ast.unparse, (test.left, *test.comparators))}
    return extract_last_name(test) == "TYPE_CHECKING"


def is_environment_check(test: ast.expr) -> bool:
    """Return whether a condition compares sys.version_info, sys.platform, os.name, or __name__.

    One branch of it may never run in the container.
    """
    if not isinstance(test, ast.Compare):
        return False
    compared = {ast.unparse(part).split("[")[0] for part in (test.left, *test.comparators)}
    return bool(compared & {"sys.version_info", "sys.platform", "os.name", "__name__"})


def extract_last_name(expression: ast.expr) -> str | None:
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else None


def find_single_assignments(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    """Return the names that these nodes assign exactly once and that aren't parameters, with their values."""
    every = list(nodes)
    names = [node for node in every if isinstance(node, ast.Name)]
    stored = Counter(name.id for name in names if not isinstance(name.ctx, ast.Load))
    stored.update(node.arg for node in every if isinstance(node, ast.arg))
    return {
        node.targets[0].id: node.value
        for node in every
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if stored[node.targets[0].id] == 1
    }


def list_standard_library(python: str) -> frozenset[str]:
    """Return the top-level modules in the standard library of `python`, such as "3.12"."""
    version = _parse_version(python)
    names = set(sys.stdlib_module_names)
    for since, modules in _REMOVED.items():
        names = names - modules if since <= version else names | modules
    for since, modules in _ADDED.items():
        names = names | modules if since <= version else names - modules
    return frozenset(names)
