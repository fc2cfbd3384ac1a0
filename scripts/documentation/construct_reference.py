"""docs/reference/constructs.md: every public construct with its arguments and defaults, from the docstrings.

The sources are read and not imported: CDK would take seconds.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FACADE = ROOT / "servable" / "constructs.py"
HEAD = """\
# Constructs

Generated from the docstrings by `python scripts/generate.py`; do not edit.

Use every name of `servable.constructs` in [your own CDK app](../own-app.md). All arguments except scope and
id are keyword-only.
"""
TABLES = "infra.parameters."  # the tables of an environment file, and what is in them


def markdown() -> str:
    """The page."""
    return HEAD + "".join(f"\n{text}" for text in _sections())


def _sections() -> Iterator[str]:
    tree = ast.parse(FACADE.read_text(encoding="utf-8"))
    tables = []
    for name, (module, original) in sorted(_imported(tree).items()):
        node = _definition(module, original)
        if module.startswith(TABLES) or module == "infra.policy.container":
            tables.append(f"`{name}`")
        elif node is not None:
            yield f"## {name}\n\n{_described(node)}"
    yield (
        f"## Values\n\n{', '.join(tables)} are the tables of an environment file: their keys, units, "
        "defaults and reasons are in [parameters](parameters.md).\n"
    )


def _imported(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Public name to the module and the name that it comes from."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.startswith(("infra.", "stacks."))
        for alias in node.names
        if alias.name[0].isupper()
    }


def _definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    file = ROOT / (module.replace(".", "/") + ".py")
    if not file.is_file():
        return None  # `environment_stage` itself, a module
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return node
    return None


def _described(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return docstrings and signatures: of the class, its constructor, its methods, and its attributes."""
    parts = [_text(node)]
    if isinstance(node, ast.FunctionDef):
        return "\n".join([*parts, _code(_signature(node))])
    methods = [member for member in node.body if isinstance(member, ast.FunctionDef)]
    items = [f"- `{field}`: {said}\n" for field, said in _fields(node)]
    sections = []
    for member in methods:
        said = ast.get_docstring(member) or ""
        if member.name == "__init__":
            parts += [_code(_signature(member)), _text(member)]
            items += [f"- `{name}`: {text}\n" for name, text in _attributes(member)]
        elif member.name.startswith("_") or not said:
            continue
        elif _arguments(said) or member.args.kwonlyargs:
            sections.append(
                f"### {node.name}.{member.name}\n\n{_text(member)}\n{_code(_signature(member))}"
            )
        else:
            items.append(f"- `{member.name}`: {_line(said)}\n")
    return "\n".join(filter(None, [*parts, "".join(items), *sections]))


def _attributes(constructor: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield the public attributes that a constructor sets, with the string after each."""
    for field, said in zip(constructor.body, constructor.body[1:], strict=False):
        targets = field.targets if isinstance(field, ast.Assign) else []
        if isinstance(field, ast.AnnAssign):
            targets = [field.target]
        names = [each.attr for each in targets if isinstance(each, ast.Attribute)]
        if names and isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant):
            yield names[0], _line(str(said.value.value))


def _arguments(docstring: str) -> bool:
    """Return whether a docstring describes arguments: `name: what it is`."""
    lines = (line.partition(": ") for line in docstring.splitlines()[1:])
    return any(colon and name.isidentifier() for name, colon, _ in lines)


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, said in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(said, ast.Expr)
            and isinstance(said.value, ast.Constant)
        ):
            yield ast.unparse(field), _line(str(said.value.value))


def _signature(node: ast.FunctionDef) -> str:
    arguments = [
        f"    {ast.unparse(argument)}"
        for argument in node.args.args
        if node.name != "__init__" and argument.arg not in ("self", "scope", "construct_id")
    ]
    arguments += [
        f"    {ast.unparse(argument)}" + ("" if default is None else f" = {ast.unparse(default)}")
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    ]
    return ",\n".join(arguments)


def _code(text: str) -> str:
    return f"```text\n{inspect.cleandoc(text)}\n```\n" if text else ""


def _line(text: str) -> str:
    return " ".join(text.split())


def _text(node: ast.ClassDef | ast.FunctionDef) -> str:
    """The docstring; `name: what it is` of an argument becomes an item of a list."""
    lines: list[str] = []
    for line in (ast.get_docstring(node) or "").splitlines():
        name, colon, said = line.partition(": ")
        if colon and name.isidentifier() and not line.startswith(" "):
            if lines and not lines[-1].startswith(("- ", "  ")) and lines[-1]:
                lines.append("")
            lines.append(f"- `{name}`: {said}")
        else:
            lines.append(line.replace("    ", "  ") if line.startswith(" ") else line)
    return "\n".join(lines) + "\n" if lines else ""
