"""Paths, variables and ports that code takes for granted, and that the container does not have.

Only what is certain from reading is reported: a value that is computed, caught, tested for, or
written by the code itself is taken as it is.
Source: https://github.com/aws/deep-learning-containers (at e0ecede, 2026-08-21),
scripts/docker/tensorflow/inference/sagemaker/serve.py (--chdir /sagemaker, ports, variables)
"""

import ast
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from pathlib import Path

from model_packaging.handler_functions import CodeFinding
from model_packaging.python_source import last_name, never_runs

# The container's folders: where code/ is, and where it runs.
CODE, WORKING_FOLDER = "/opt/ml/model/code", "/sagemaker"
# Set by Docker, by the image (ENV of its Dockerfile, serve.py) or by SageMaker; and what is set
# where a library wants it.
_SET = frozenset(
    {
        "DLC_CONTAINER_TYPE",
        "HOME",
        "HOSTNAME",
        "LANG",
        "LC_ALL",
        "LD_LIBRARY_PATH",
        "MODEL_BASE_PATH",
    }
    | {"MODEL_NAME", "OMP_NUM_THREADS", "PATH", "PWD"}
)
_SET_PREFIXES = ("AWS_", "ECS_", "NVIDIA_", "PYTHON", "SAGEMAKER_", "SM_", "TFS_")
_OPENED = frozenset({"io", "codecs", "gzip", "bz2", "lzma", "zipfile", "tarfile", "Image"})
_LOADED = frozenset({"np", "numpy", "pd", "pandas", "joblib"})
_LOADERS = frozenset(
    {"load", "loadtxt", "genfromtxt", "fromfile"}
    | {"read_csv", "read_json", "read_parquet", "read_pickle", "read_table", "read_excel"}
)
_SAME = frozenset(
    {"Path", "PurePath", "str", "abspath", "realpath", "fspath", "resolve", "absolute"}
)
_OF_A_PATH = frozenset({"joinpath", "with_name", "resolve", "absolute"})
_OF_ANOTHER_COMPUTER = re.compile(r"/(home|Users|content|kaggle)/|[A-Za-z]:[\\/]|~")
_PORT = re.compile(r"(localhost|127\.0\.0\.1|0\.0\.0\.0):(8500|8501|9000)(?![0-9])")
# One of these is in every file with such a fault; the search spares the walk.
_MENTIONED = re.compile(rb"open\(|read_|\.load\(|fromfile|genfromtxt|loadtxt|environ|8500|8501|9000")
# Tests and handlers that show that the code can do without.
_ASKS = re.compile(r"exists|is_?file|is_?dir|environ|getenv|platform|__name__|access\(")
_CAUGHT = re.compile(
    r"OSError|IOError|EnvironmentError|NotFoundError|KeyError|LookupError|Exception"
)


def value_faults(
    file: Path, tree: ast.Module, source: bytes, *, code: Path, variables: Collection[str] | None
) -> Iterator[CodeFinding]:
    """`variables`: names that the container certainly has beside its own; None: they are not known."""
    if _MENTIONED.search(source) is None:
        return
    values = _Values(file, tree, code)
    yield from (CodeFinding(file, *fault) for fault in values.paths())
    yield from (CodeFinding(file, *fault) for fault in values.ports())
    if variables is not None:
        yield from (CodeFinding(file, *fault) for fault in values.variables({*variables, *_SET}))


_Fault = tuple[int, str, str]


class _Values:
    """One file's expressions, without those that are guarded or never run."""

    def __init__(self, file: Path, tree: ast.Module, code: Path) -> None:
        self._tree, self._code = tree, code
        self._place = f"{CODE}/{file.relative_to(code).as_posix()}"
        self._nodes = list(_unguarded(tree.body))
        nodes = ast.walk(tree)
        self._attributes = [node for node in nodes if isinstance(node, ast.Attribute)]

    def paths(self) -> Iterator[_Fault]:
        """Files that are read, and are certainly not there."""
        calls = [node for node in ast.walk(self._tree) if isinstance(node, ast.Call)]
        reads = {id(call): path for call in calls if (path := self._read(call)) is not None}
        # A path that goes elsewhere too may be written there: s3.download_file(…, path).
        elsewhere = {
            path
            for call in calls
            if id(call) not in reads and last_name(call.func) not in _SAME | {"join", "dirname"}
            for argument in (*call.args, *(keyword.value for keyword in call.keywords))
            if (path := self._text(argument)) is not None
        }
        moved = any(last_name(call.func) == "chdir" for call in calls)
        for node in self._nodes:
            path = reads.get(id(node)) if isinstance(node, ast.Call) else None
            if path is None or path in elsewhere or (moved and not path.startswith("/")):
                continue
            line = node.lineno if isinstance(node, ast.Call) else 0
            normal = posixpath.normpath(path)
            name = posixpath.basename(normal)
            if _OF_ANOTHER_COMPUTER.match(path):
                remedy = f"put the file beside the code and open Path(__file__).with_name({name!r})"
                yield line, f"opens {path!r}, a path of another computer", remedy
            elif not path.startswith("/"):
                problem = f"opens {path!r}, which is relative to {WORKING_FOLDER} in the container"
                yield line, problem, f"open Path(__file__).with_name({name!r}), beside the code"
            elif normal.startswith(f"{CODE}/") and not normal.startswith(f"{CODE}/lib/"):
                inside = posixpath.relpath(normal, CODE)
                if not (self._code / inside).exists():
                    yield line, f"opens {inside}, which is not in the code folder", "put it there"

    def ports(self) -> Iterator[_Fault]:
        """Addresses of the model server: SageMaker gives the container other ports."""
        for node in self._nodes:
            text = self._text(node) if isinstance(node, ast.Constant | ast.JoinedStr) else None
            match = _PORT.search(text or "")
            if match is None:
                continue
            assert isinstance(node, ast.Constant | ast.JoinedStr)  # only they have a text above
            field = "rest_uri" if match[2] == "8501" else "channel"
            # With the field at hand the address is what is used elsewhere.
            if not any(attribute.attr == field for attribute in self._attributes):
                problem = f"calls {match[0]}, but in SageMaker the model server has another port"
                yield node.lineno, problem, f"use context.{field}"

    def variables(self, names: Collection[str]) -> Iterator[_Fault]:
        """Variables that are read with os.environ["NAME"], and that nothing sets."""
        given = set(names)
        for node in ast.walk(
            self._tree
        ):  # os.environ["X"] = …, os.environ.setdefault("X", …), in …
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                given.add(self._text(node.slice) or "")
            elif isinstance(node, ast.Call) and last_name(node.func) in ("setdefault", "putenv"):
                given.add(next((self._text(argument) or "" for argument in node.args), ""))
            elif isinstance(node, ast.Call) and _environment_is_filled(node):
                return
        for node in self._nodes:
            if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
                continue
            name = self._text(node.slice)
            if last_name(node.value) != "environ" or name is None:
                continue
            if name not in given and not name.startswith(_SET_PREFIXES):
                remedy = f"set {name} in the variant's variables, or read it with os.environ.get"
                yield node.lineno, f"reads os.environ[{name!r}], which is not set", remedy

    def _read(self, call: ast.Call) -> str | None:
        """The path that the call opens for reading, where it is known."""
        function, first = call.func, next(iter(call.args), None)
        if isinstance(first, ast.Constant) and not isinstance(first.value, str):
            return None  # a descriptor
        if not isinstance(function, ast.Attribute):
            opens = isinstance(function, ast.Name) and function.id == "open"
            return self._text(first) if opens and _is_read(call, 1) else None
        of = function.value.id if isinstance(function.value, ast.Name) else ""
        if function.attr == "open" and of in _OPENED:
            return self._text(first) if _is_read(call, 1) else None
        if function.attr in _LOADERS and of in _LOADED:
            return self._text(first)
        if function.attr in ("read_text", "read_bytes", "open"):
            return self._text(function.value) if _is_read(call, 0) else None
        return None

    @cached_property
    def _constants(self) -> dict[str, ast.expr]:
        """Names that are assigned once in the file, and not to a parameter."""
        names = [node for node in ast.walk(self._tree) if isinstance(node, ast.Name)]
        stored = Counter(name.id for name in names if not isinstance(name.ctx, ast.Load))
        stored.update(node.arg for node in ast.walk(self._tree) if isinstance(node, ast.arg))
        return {
            node.targets[0].id: node.value
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
            if stored[node.targets[0].id] == 1
        }

    def _text(self, node: ast.expr | None, depth: int = 0) -> str | None:
        """The string, or the path as a string, where reading tells it."""
        if depth > 20:
            return None
        parts: list[str | None]
        text: str | None = None
        match node:
            case ast.Constant(value=str() | int() as value):
                text = str(value)
            case ast.Name(id="__file__"):
                text = self._place
            case ast.Name(id=name) if name in self._constants:
                text = self._text(self._constants[name], depth + 1)
            case ast.Attribute(value=inner, attr="parent"):
                parts = [self._text(inner, depth + 1)]
                text = None if parts[0] is None else posixpath.dirname(parts[0])
            case ast.BinOp(left=left, op=ast.Div() | ast.Add() as operator, right=right):
                parts = [self._text(left, depth + 1), self._text(right, depth + 1)]
                joins = posixpath.join if isinstance(operator, ast.Div) else _concatenated
                text = _of_all(parts, joins)
            case ast.JoinedStr(values=values):
                inner_values = [getattr(value, "value", value) for value in values]
                parts = [
                    value if isinstance(value, str) else self._text(value, depth + 1)
                    for value in inner_values
                ]
                text = _of_all(parts, _concatenated)
            case ast.Call(func=function, args=arguments) if not node.keywords:
                called = last_name(function)
                parts = [self._text(argument, depth + 1) for argument in arguments]
                if isinstance(function, ast.Attribute) and called in _OF_A_PATH:
                    path = self._text(function.value, depth + 1)
                    whole = called != "with_name" or path is None
                    parts.insert(0, path if whole else posixpath.dirname(path or ""))
                    text = _of_all(parts, posixpath.join)
                elif called in _SAME | {"join"} and parts:
                    text = _of_all(parts, posixpath.join)
                elif called == "dirname" and len(parts) == 1 and parts[0] is not None:
                    text = posixpath.dirname(parts[0])
        return text


def _of_all(parts: list[str | None], joined: Callable[..., str]) -> str | None:
    texts = [part for part in parts if part is not None]
    return joined(*texts) if len(texts) == len(parts) and texts else None


def _concatenated(*texts: str) -> str:
    return "".join(texts)


def _is_read(call: ast.Call, position: int) -> bool:
    """Whether the call opens for reading alone; `position`: the mode's among its arguments."""
    modes = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    modes += call.args[position : position + 1]
    return not modes or (
        isinstance(modes[0], ast.Constant) and not set("wax+") & set(str(modes[0].value))
    )


def _environment_is_filled(call: ast.Call) -> bool:
    """Whether it sets variables whose names are not read: load_dotenv(), os.environ.update(…)."""
    if last_name(call.func) == "update" and isinstance(call.func, ast.Attribute):
        return last_name(call.func.value) == "environ"
    return last_name(call.func) in ("load_dotenv", "read_env")


def _unguarded(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes that run in the container, and whose failing nobody expects."""
    for node in nodes:
        inside: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, ast.If) and (never_runs(node.test) or _asks(node.test)):
            inside = node.orelse if never_runs(node.test) else []
        elif isinstance(node, ast.Try | ast.TryStar) and any(map(_expects, node.handlers)):
            inside = [*node.handlers, *node.orelse, *node.finalbody]
        elif isinstance(node, ast.With) and "suppress(" in ast.unparse(node.items[0]):
            inside = []
        elif isinstance(node, ast.IfExp | ast.BoolOp):
            inside = []  # one value in the place of another
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside = []  # a docstring
        else:
            yield node
        yield from _unguarded(inside)


def _asks(test: ast.expr) -> bool:
    return _ASKS.search(ast.unparse(test)) is not None


def _expects(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or _CAUGHT.search(ast.unparse(handler.type)) is not None
