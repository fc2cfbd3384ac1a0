"""What a Python file imports, and which names it has at its top level; read, never run."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

# Catching one of these around an import is how code says that it can do without.
_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


@dataclass(frozen=True)
class Import:
    """One import statement's module."""

    module: str
    """Dotted, "" for `from . import x`."""
    names: tuple[str, ...]
    """What `from module import …` takes; submodules may be among them."""
    line: int
    level: int
    """Leading dots: 0 is absolute."""
    optional: bool
    """Where its failing is caught, or where it may not run in the container at all."""


def imports(tree: ast.Module) -> Iterator[Import]:
    """Every import, those inside functions too: they fail when a request comes."""
    return _imports(tree.body, optional=False)


def top_level_names(tree: ast.Module) -> set[str]:
    """Names that `getattr` on the imported module would find; "*" after a star import."""
    return set(_names(tree.body))


def _imports(nodes: list[ast.stmt], *, optional: bool) -> Iterator[Import]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, (), node.lineno, 0, optional)
        elif isinstance(node, ast.ImportFrom):
            names = tuple(alias.name for alias in node.names)
            yield Import(node.module or "", names, node.lineno, node.level, optional)
        elif isinstance(node, ast.Try | ast.TryStar):
            caught = any(_catches_import_errors(handler) for handler in node.handlers)
            yield from _imports(node.body, optional=optional or caught)
            rest = [*(one for h in node.handlers for one in h.body), *node.orelse, *node.finalbody]
            yield from _imports(rest, optional=optional)
        elif isinstance(node, ast.If) and _never_in_the_container(node.test):
            yield from _imports(node.body, optional=True)
            yield from _imports(node.orelse, optional=optional)
        elif isinstance(node, ast.If) and _asks_where_it_runs(node.test):
            yield from _imports([*node.body, *node.orelse], optional=True)
        elif isinstance(node, ast.With) and any(map(_suppresses_import_errors, node.items)):
            yield from _imports(node.body, optional=True)
        else:
            yield from _imports(_statements(node), optional=optional)


def _names(nodes: list[ast.stmt]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import):
            yield from (alias.asname or alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            continue  # `handler: Handler` declares, and defines nothing
        else:
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    yield from _stored(part)
            yield from _names(_statements(node))


def _stored(expression: ast.expr) -> Iterator[str]:
    for part in ast.walk(expression):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


def _statements(node: ast.AST) -> list[ast.stmt]:
    """The statements directly inside one: bodies, else branches, handlers, cases."""
    inside: list[ast.stmt] = []
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.stmt):
            inside.append(part)
        elif isinstance(part, ast.ExceptHandler | ast.match_case):
            inside += part.body
    return inside


def _catches_import_errors(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(_last_name(one) in _CAUGHT for one in types)


def _suppresses_import_errors(item: ast.withitem) -> bool:
    """`with contextlib.suppress(ImportError)`."""
    call = item.context_expr
    if not isinstance(call, ast.Call) or _last_name(call.func) != "suppress":
        return False
    return any(_last_name(one) in _CAUGHT for one in call.args)


def _never_in_the_container(test: ast.expr) -> bool:
    """`if TYPE_CHECKING` and `if __name__ == "__main__"`: inference.py is imported there."""
    if isinstance(test, ast.Compare):
        return _last_name(test.left) == "__name__" and isinstance(test.ops[0], ast.Eq)
    return _last_name(test) == "TYPE_CHECKING"


def _asks_where_it_runs(test: ast.expr) -> bool:
    """Compares sys.version_info, sys.platform or os.name: one branch may never run there."""
    return isinstance(test, ast.Compare) and any(
        ast.unparse(part).split("[")[0] in ("sys.version_info", "sys.platform", "os.name")
        for part in (test.left, *test.comparators)
    )


def _last_name(expression: ast.expr) -> str | None:
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return expression.id if isinstance(expression, ast.Name) else None
