"""Names that a module of the code folder does not have, where another module takes them from it."""

import ast
import difflib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from model_packaging.handler_functions import CodeFinding
from model_packaging.python_source import Import, imports, top_level_names

# Code that may give a module names which no reader sees.
_DYNAMIC = re.compile(r"\bglobals\(\)|\bexec\(|\bsetattr\(|__dict__|sys\.modules|\bvars\(")
FileOf = Callable[[Import], Path | None]
"""The file of this folder whose names an import takes; None: another module, or a namespace."""


def missing_names(
    file: Path, tree: ast.Module, file_of: FileOf, parsed: Callable[[Path], ast.Module | None]
) -> Iterator[CodeFinding]:
    """Names that `from module import name` or `module.name` ask a module of the folder for in vain."""
    for imported in imports(tree):
        own = file_of(imported)
        if own is None or imported.optional:
            continue
        names = _names(parsed(own))
        for name in imported.names:
            if name != "*" and names is not None and not _is_there(own, name, names):
                yield _missing(file, imported.line, own, name, names)
    modules = _bindings(tree, file_of)
    if not modules:
        return
    tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try)]
    guarded = {id(part) for node in tries for part in ast.walk(ast.Module(node.body, []))}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        own = modules.get(node.value.id)
        names = _names(parsed(own)) if own is not None else None
        if own is None or names is None or id(node) in guarded or node.attr.startswith("__"):
            continue
        if not _is_there(own, node.attr, names):
            yield _missing(file, node.lineno, own, node.attr, names)


def _names(tree: ast.Module | None) -> set[str] | None:
    """The names of the module; None if reading does not tell them."""
    if tree is None or _DYNAMIC.search(ast.unparse(tree)):
        return None
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Global)]
    names = top_level_names(tree).union(*(node.names for node in nodes))
    return None if names & {"*", "__getattr__"} else names


def _is_there(own: Path, name: str, names: set[str]) -> bool:
    if name in names or (name.startswith("__") and name.endswith("__")):
        return True
    beside = own.parent if own.name == "__init__.py" else None
    return beside is not None and ((beside / name).exists() or any(beside.glob(f"{name}.*")))


def _bindings(tree: ast.Module, file_of: FileOf) -> dict[str, Path]:
    """Names that the file binds to a module of the folder, and to nothing else."""
    bound: dict[str, Path] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = Import(alias.name, (), node.lineno, 0, False)
                if (alias.asname or "." not in alias.name) and (own := file_of(module)):
                    bound[alias.asname or alias.name] = own
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                parts = filter(None, (node.module, alias.name))
                module = Import(".".join(parts), (), node.lineno, node.level, False)
                if own := file_of(module):
                    bound[alias.asname or alias.name] = own
    for node in ast.walk(tree) if bound else ():
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.pop(node.id, None)
        elif isinstance(node, ast.arg | ast.ExceptHandler | ast.FunctionDef | ast.ClassDef):
            bound.pop((node.arg if isinstance(node, ast.arg) else node.name) or "", None)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            bound.pop(ast.unparse(node.value), None)  # module.name = …
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("hasattr", "getattr"):
            bound.pop(ast.unparse(node.args[0]) if node.args else "", None)
    return bound


def _missing(file: Path, line: int, own: Path, name: str, names: set[str]) -> CodeFinding:
    close = difflib.get_close_matches(name, sorted(names), n=1)
    remedy = f"did you mean {close[0]}?" if close else "define it there, or take it from elsewhere"
    return CodeFinding(
        file, line, f"takes {name} from {own.name}, which does not define it", remedy
    )
