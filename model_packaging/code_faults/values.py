"""Finds paths, variables, ports, and packages that code relies on but the container doesn't have.

Only what is certain from reading is reported: a value that is computed, caught, tested for, or
written by the code itself isn't checked. Source: https://github.com/aws/deep-learning-containers
(at e0ecede, 2026-08-21), scripts/docker/tensorflow/inference/sagemaker/serve.py (--chdir
/sagemaker, ports, variables)
"""

import ast
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from model_packaging.handler_functions import CodeFinding
from model_packaging.python_source import extract_last_name, find_single_assignments, is_never_true

# The container's folders: where code/ is, and where it runs.
CODE, WORKING_FOLDER = "/opt/ml/model/code", "/sagemaker"
# Set by Docker, by the image (ENV of its Dockerfile, serve.py) or by SageMaker; and what is set
# where a library wants it.
_SET = frozenset(
    {"DLC_CONTAINER_TYPE", "HOME", "HOSTNAME", "LANG", "LC_ALL", "LD_LIBRARY_PATH"}
    | {"MODEL_BASE_PATH", "MODEL_NAME", "OMP_NUM_THREADS", "PATH", "PWD"}
)
_SET_PREFIXES = ("AWS_", "ECS_", "NVIDIA_", "PYTHON", "SAGEMAKER_", "SM_", "TFS_")
_OPENED = frozenset({"io", "codecs", "gzip", "bz2", "lzma", "zipfile", "tarfile", "Image"})
_LOADED = frozenset({"np", "numpy", "pd", "pandas", "joblib"})
_LOADERS = frozenset(
    {"load", "loadtxt", "genfromtxt", "fromfile"}
    | {"read_csv", "read_json", "read_parquet", "read_pickle", "read_table", "read_excel"}
)
_OF_ANOTHER_COMPUTER = re.compile(r"/(home|Users|content|kaggle)/|[A-Za-z]:[\\/]|~")
_INSTALLS = re.compile(r"\b(apt-get|apt|yum|dnf|conda|pip3?)\b.* install\b")
_RUN = frozenset({"system", "run", "call", "check_call", "check_output", "Popen", "getoutput"})
_PORT = re.compile(r"(localhost|127\.0\.0\.1|0\.0\.0\.0):(8500|8501|9000)(?![0-9])")
# One of these is in every file with such a fault; the search spares the walk.
_MENTIONED = re.compile(
    rb"install|open\(|read_|\.load\(|fromfile|genfromtxt|loadtxt|environ|8500|8501|9000"
)
# Tests and handlers that show that the code can do without.
_ASKS = re.compile(r"exists|is_?file|is_?dir|environ|getenv|platform|__name__|access\(")
_CAUGHT = re.compile(r"(OS|IO|Environment|NotFound|Key|Lookup)Error|Exception")


def _join_texts(*texts: str) -> str:
    return "".join(texts)


# What the functions and methods do to the strings of a path.
_OF_PATHS: dict[str, Callable[..., str]] = dict.fromkeys(
    ("Path", "PurePath", "str", "abspath", "realpath", "fspath", "join"), posixpath.join
)
_OF_PATHS["dirname"] = posixpath.dirname
_OF_A_PATH: dict[str, Callable[..., str]] = {
    **dict.fromkeys(("joinpath", "resolve", "absolute"), posixpath.join),
    "with_name": lambda path, name: posixpath.join(posixpath.dirname(path), name),
}
_DEEPEST = 20  # of names for names


def find_value_faults(
    file: Path, tree: ast.Module, source: bytes, *, code: Path, variables: Collection[str] | None
) -> Iterator[CodeFinding]:
    """Yield the values in a file that the container doesn't have.

    `variables`: names that the container has own_paths its own; None if they aren't known.
    """
    if _MENTIONED.search(source) is None:
        return
    values = _Values(file, tree, code)
    unset = () if variables is None else values.find_unset_variables({*variables, *_SET})
    for fault in (*values.find_missing_files(), *values.find_fixed_ports(), *unset):
        yield CodeFinding(file, *fault)
    for fault in values.find_installs():
        yield CodeFinding(file, *fault, "warning")


_Fault = tuple[int, str, str]


class _Values:
    """The expressions of one file, without those that are guarded or never run."""

    def __init__(self, file: Path, tree: ast.Module, code: Path) -> None:
        self._tree, self._code = tree, code
        self._place = f"{CODE}/{file.relative_to(code).as_posix()}"
        self._nodes = list(_walk_unguarded(tree.body))
        self._constants = find_single_assignments(ast.walk(tree))
        nodes = ast.walk(tree)
        self._attributes = [node for node in nodes if isinstance(node, ast.Attribute)]

    def find_missing_files(self) -> Iterator[_Fault]:
        """Yield files that the code reads, and that are certainly missing."""
        calls = [node for node in ast.walk(self._tree) if isinstance(node, ast.Call)]
        paths = {id(call): self._find_read_path(call) for call in calls}
        reads = {call: path for call, path in paths.items() if path is not None}
        # A path that goes elsewhere too may be written there: s3.download_file(…, path).
        elsewhere = {
            path
            for call in calls
            if id(call) not in reads
            and extract_last_name(call.func) not in {*_OF_PATHS, *_OF_A_PATH}
            for argument in (*call.args, *(keyword.value for keyword in call.keywords))
            if (path := self._evaluate_text(argument)) is not None
        }
        moved = any(extract_last_name(call.func) == "chdir" for call in calls)
        for node in self._nodes:
            path = reads.get(id(node))
            if path is None or path in elsewhere or (moved and not path.startswith("/")):
                continue
            line = getattr(node, "lineno", 0)
            normal = posixpath.normpath(path)
            own_path = f"Path(__file__).with_name({posixpath.basename(normal)!r})"
            if _OF_ANOTHER_COMPUTER.match(path):
                remedy = f"put the file next to the code and open {own_path}"
                yield line, f"opens {path!r}, a path on a different computer", remedy
            elif not path.startswith("/"):
                problem = f"opens {path!r}, which is relative to {WORKING_FOLDER} in the container"
                yield line, problem, f"open {own_path}, next to the code"
            elif normal.startswith(f"{CODE}/") and not normal.startswith(f"{CODE}/lib/"):
                inside = posixpath.relpath(normal, CODE)
                if not (self._code / inside).exists():
                    yield line, f"opens {inside}, which is not in the code folder", "put it there"

    def find_fixed_ports(self) -> Iterator[_Fault]:
        """Yield addresses of the model server: SageMaker gives the container different ports."""
        for node in self._nodes:
            if not isinstance(node, ast.Constant | ast.JoinedStr):
                continue
            match = _PORT.search(self._evaluate_text(node) or "")
            field = "rest_uri" if match and match[2] == "8501" else "channel"
            # Code that uses the field has the address for use outside of SageMaker.
            if match and not any(attribute.attr == field for attribute in self._attributes):
                problem = (
                    f"calls {match[0]}, but in SageMaker the model server has a different port"
                )
                yield node.lineno, problem, f"use context.{field}"

    def find_installs(self) -> Iterator[_Fault]:
        """Yield packages that the code installs: in each worker, while SageMaker waits for /ping."""
        for node in self._nodes:
            called = extract_last_name(node.func) if isinstance(node, ast.Call) else None
            if not isinstance(node, ast.Call) or called not in _RUN or not node.args:
                continue
            words = node.args[0].elts if isinstance(node.args[0], ast.List) else node.args[:1]
            match = _INSTALLS.search(" ".join(self._evaluate_text(word) or "?" for word in words))
            if match is not None:
                problem = f"runs {match[1]} in every container, which needs internet access"
                if match[1] in ("apt", "apt-get"):
                    problem += ", and the 2.20 image has no apt"
                remedy = (
                    "list Python packages in code/requirements.txt; for others, use your own image"
                )
                yield node.lineno, problem, remedy

    def find_unset_variables(self, given: set[str]) -> Iterator[_Fault]:
        """Yield variables that are read with os.environ["NAME"], and that nothing sets."""
        for node in ast.walk(self._tree):  # os.environ["X"] = …, os.environ.setdefault("X", …)
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                given.add(self._evaluate_text(node.slice) or "")
            elif isinstance(node, ast.Call):
                if extract_last_name(node.func) in ("setdefault", "putenv"):
                    given.update(self._evaluate_text(argument) or "" for argument in node.args[:1])
                elif _is_environment_update(node):
                    return
        for node in self._nodes:
            if not (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)):
                continue
            name = self._evaluate_text(node.slice)
            if extract_last_name(node.value) != "environ" or name is None or name in given:
                continue
            if not name.startswith(_SET_PREFIXES):
                remedy = f"set {name} in the variant's environment, or use os.environ.get"
                yield node.lineno, f"reads os.environ[{name!r}], which is not set", remedy

    def _find_read_path(self, call: ast.Call) -> str | None:
        """Return the path that the call opens for reading, or None if it isn't known."""
        function, first = call.func, next(iter(call.args), None)
        if isinstance(first, ast.Constant) and not isinstance(first.value, str):
            return None  # a descriptor
        if not isinstance(function, ast.Attribute):
            opens = isinstance(function, ast.Name) and function.id == "open"
            return self._evaluate_text(first) if opens and _is_reading(call, 1) else None
        of = function.value.id if isinstance(function.value, ast.Name) else ""
        if function.attr == "open" and of in _OPENED:
            return self._evaluate_text(first) if _is_reading(call, 1) else None
        if function.attr in _LOADERS and of in _LOADED:
            return self._evaluate_text(first)
        if function.attr in ("read_text", "read_bytes", "open"):
            return self._evaluate_text(function.value) if _is_reading(call, 0) else None
        return None

    def _evaluate_text(self, node: ast.AST | None, depth: int = 0) -> str | None:
        """Return the string, or the path as a string; None if reading can't determine it."""
        parts: Sequence[ast.AST] = ()
        join: Callable[..., str] = posixpath.join
        match node:
            case ast.Constant(value=str() | int() as value):
                return str(value)
            case ast.Name(id="__file__"):
                return self._place
            case ast.Name(id=name) if name in self._constants and depth < _DEEPEST:
                return self._evaluate_text(self._constants[name], depth + 1)
            case ast.FormattedValue(value=inner):
                return self._evaluate_text(inner, depth + 1)
            case ast.Attribute(value=inner, attr="parent"):
                parts, join = [inner], posixpath.dirname
            case ast.BinOp(left=left, op=ast.Div(), right=right):
                parts = [left, right]
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                parts, join = [left, right], _join_texts
            case ast.JoinedStr(values=values):
                parts, join = values, _join_texts
            case ast.Call(func=ast.Attribute(value=inner, attr=name), keywords=[]) if (
                name in _OF_A_PATH
            ):
                parts, join = [inner, *node.args], _OF_A_PATH[name]
            case ast.Call(func=function, keywords=[]) if extract_last_name(function) in _OF_PATHS:
                parts, join = node.args, _OF_PATHS[extract_last_name(function) or ""]
        texts = [self._evaluate_text(part, depth + 1) for part in parts]
        return join(*texts) if texts and None not in texts else None


def _is_reading(call: ast.Call, position: int) -> bool:
    """Return whether the call opens a file only for reading; `position`: the mode's argument."""
    modes = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    modes += call.args[position : position + 1]
    return not modes or (
        isinstance(modes[0], ast.Constant) and not set("wax+") & set(str(modes[0].value))
    )


def _is_environment_update(call: ast.Call) -> bool:
    """Return whether the call sets unknown variables: load_dotenv(), os.environ.update(…)."""
    if extract_last_name(call.func) == "update" and isinstance(call.func, ast.Attribute):
        return extract_last_name(call.func.value) == "environ"
    return extract_last_name(call.func) in ("load_dotenv", "read_env")


def _walk_unguarded(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes that run in the container and whose failure the code doesn't expect."""
    for node in nodes:
        inside: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, ast.If) and is_never_true(node.test):
            inside = node.orelse
        elif isinstance(node, ast.If) and _ASKS.search(ast.unparse(node.test)):
            inside = []
        elif isinstance(node, ast.Try | ast.TryStar) and any(map(_is_expected, node.handlers)):
            inside = [*node.handlers, *node.orelse, *node.finalbody]
        elif isinstance(node, ast.With) and "suppress(" in ast.unparse(node.items[0]):
            inside = []
        elif isinstance(node, ast.IfExp | ast.BoolOp):
            inside = []  # one value instead of another
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            inside = []  # a docstring
        else:
            yield node
        yield from _walk_unguarded(inside)


def _is_expected(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or _CAUGHT.search(ast.unparse(handler.type)) is not None
