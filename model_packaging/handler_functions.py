"""Checks the functions that the container calls: that they exist and match how they are called.

Only faults that are certain from reading are reported: a function that is decorated, imported, or
assigned isn't checked. Source: https://github.com/aws/deep-learning-containers (at e0ecede,
2026-08-21), scripts/docker/tensorflow/inference/sagemaker/python_service.py (_import_handlers,
_make_handler)
"""

import ast
import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from model_packaging.python_source import (
    extract_last_name,
    find_main_only_names,
    find_single_assignments,
    find_top_level_names,
)

# What SageMaker's other containers look for in inference.py.
_OF_OTHER_CONTAINERS = {"model_fn", "input_fn", "predict_fn", "output_fn", "transform_fn"}
_PAIR = frozenset({"input_handler", "output_handler"})
_CONTEXT = frozenset(
    {"model_name", "model_version", "method", "rest_uri", "grpc_port", "channel"}
    | {"custom_attributes", "request_content_type", "accept_header", "content_length", "timeout"}
    | {"count", "index"}  # and what a named tuple has
)
_CONTEXT_NAMES = frozenset({"context", "ctx"})
_BODY, _ARRAYS = "a body and its content type", "arrays by name"
# Keys of the rows in a request. https://www.tensorflow.org/tfx/serving/api_rest (2026-11-29)
_ROWS = ("instances", "inputs", "examples")
_REQUEST = "the model server's request, as text or bytes"
_CONTENT_TYPE = re.compile(r"(application|text|image|audio|video)/[\w.+-]+( *;.*)?")
# Methods and functions that give one value, and never the pair of a body and its content type.
_ONE_VALUE = frozenset(
    {"decode", "dumps", "encode", "format", "getvalue", "json", "SerializeToString", "read_bytes"}
    | {"read_text", "strip", "to_csv", "to_json", "tobytes", "tolist", "MessageToJson"}
)
_TAKE_TEXT = {"json.loads", "np.frombuffer", "numpy.frombuffer", "base64.b64decode", "len"}
_METHODS = frozenset({"json", "read"})
# Code that tests the type of an argument isn't reported.
_ASKS = re.compile(r"\A(getattr|hasattr|isinstance|type)\(|\Atry:(.|\n)*AttributeError")


@dataclass(frozen=True)
class CodeFinding:
    """One finding about the code: something that would or could fail in the container."""

    file: Path
    line: int
    """From 1; 0 where a file is missing."""
    problem: str
    remedy: str
    severity: Literal["error", "warning", "not checked"] = "error"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}; {self.remedy}"


class _Called(NamedTuple):
    """How the container calls a function with two arguments, and what the function must return.

    `lacks`: attributes that people wrongly use on the first argument.
    """

    given: str
    is_a: str
    lacks: frozenset[str]
    returns: str


_STREAM = (
    "a stream, read with data.read()",
    frozenset({"decode", "get", "items", "json", "content", "text"})
    | frozenset({"body", "data", "files", "form", "get_data", "get_json"}),
)
_CALLED = {
    "handler": _Called("data", *_STREAM, _BODY),
    "input_handler": _Called("data", *_STREAM, _REQUEST),
    "output_handler": _Called("response",
                              "a requests.Response, with response.content and response.json()",
                              frozenset({"read", "decode", "get", "items", "body"}), _BODY),
    "preprocess": _Called("body", "bytes", frozenset({"read", "get", "items", "json"}), _ARRAYS),
    "postprocess": _Called("tensors", _ARRAYS,
                           frozenset({"read", "decode", "json", "content", "text"}), ""),
}  # fmt: skip


def find_function_faults(
    file: Path, tree: ast.Module, *, hooks: bool, seconds: float = math.inf
) -> Iterator[CodeFinding]:
    """Yield the faults of the functions that the container calls.

    `hooks`: the file is transforms.py. `seconds`: the longest time that SageMaker waits for a response.
    """
    names = find_top_level_names(tree)
    called = {"preprocess", "postprocess"} & names if hooks else {"handler"} & names
    if not hooks and names >= _PAIR:
        if called:
            problem = "defines handler, so input_handler and output_handler are never called"
            yield CodeFinding(file, 1, problem, "keep either handler or the other two", "warning")
        called = called or set(_PAIR)
    if not called and "*" not in names:
        yield _describe_missing_function(file, names, find_main_only_names(tree), hooks=hooks)
    for name in sorted(called):
        if (function := _find_function(tree, name)) is None:
            continue
        for fault in _find_call_faults(function, _CALLED[name]):
            yield CodeFinding(file, *fault)
        for node in _walk_own_nodes(function.body):
            if isinstance(node, ast.Call) and _parse_sleep_seconds(node) >= seconds:
                problem = f"{ast.unparse(node)}: SageMaker waits only {seconds} s for the response"
                yield CodeFinding(file, node.lineno, problem, "respond sooner")


def _describe_missing_function(
    file: Path, names: set[str], for_main: set[str], *, hooks: bool
) -> CodeFinding:
    if never := sorted(for_main & _CALLED.keys()):
        where = "only where __name__ is '__main__', never in the container"
        problem = f"defines {', '.join(never)} {where}"
        return CodeFinding(file, 1, problem, "define it at the top level of the file")
    if hooks:
        remedy = "define preprocess(body, context), postprocess(tensors, context), or both"
        return CodeFinding(file, 1, "defines neither preprocess nor postprocess", remedy)
    half, others = names & _PAIR, sorted(names & _OF_OTHER_CONTAINERS)
    problem = f"defines only {half.pop()}" if half else "defines no handler"
    if others:
        problem += f"; {', '.join(others)} are called only by other SageMaker containers"
    remedy = "define handler(data, context), or both input_handler and output_handler"
    return CodeFinding(file, 1, problem, remedy)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _find_function(tree: ast.Module, name: str) -> _Function | None:
    """Return the function that a name is bound to last; None if it isn't one, or is decorated."""
    bound: _Function | None = None
    for node in tree.body:
        if name in find_top_level_names(ast.Module([node], [])):
            bound = node if isinstance(node, _Function) and not node.decorator_list else None
    return bound


_Wrong = tuple[int, str, str]


def _find_call_faults(function: _Function, called: _Called) -> Iterator[_Wrong]:
    """Yield (line, problem, remedy) for each fault in how the function can be called."""
    name, line, arguments = function.name, function.lineno, function.args
    if isinstance(function, ast.AsyncFunctionDef):
        problem = f"{name} is async: the container does not await it"
        yield line, problem, "define it without async"
        return
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = len(positional) - len(arguments.defaults)
    most = len(positional) if arguments.vararg is None else max(2, len(positional))
    named = any(default is None for default in arguments.kw_defaults)
    if not needed <= 2 <= most or named:
        problem = f"{name}({ast.unparse(arguments)}) is called with {called.given} and the context"
        yield line, problem, f"define {name}({called.given}, context)"
        return
    names = [argument.arg for argument in positional[:2]]
    if len(names) == 2 and names[0] in _CONTEXT_NAMES and names[1] not in _CONTEXT_NAMES:
        call = f"{name}({', '.join(names)})"
        problem = f"{call} is called with {called.given} first, and then the context"
        yield line, problem, f"define {name}({called.given}, context)"
        return
    inside = list(_walk_own_nodes(function.body))
    yield from _find_argument_misuse(inside, positional[:2], called)
    yield from _find_return_faults(name, inside, called, positional[0].arg if positional else "")


def _walk_own_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all nodes of a function, without those of functions and classes inside it."""
    for node in nodes:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            yield from _walk_own_nodes(ast.iter_child_nodes(node))


def _find_argument_misuse(
    inside: list[ast.AST], arguments: list[ast.arg], called: _Called
) -> Iterator[_Wrong]:
    """Yield the misuses of the arguments, such as attributes that they don't have.

    Skips an argument whose type the code tests or that the code assigns again.
    """
    unsure: set[str] = set()
    for node in inside:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            unsure.add(node.id)
        elif isinstance(node, ast.Try | ast.Call) and _ASKS.search(ast.unparse(node)):
            unsure |= {node.id for node in ast.walk(node) if isinstance(node, ast.Name)}
    certain = [argument.arg for argument in arguments if argument.arg not in unsure]
    for node in inside:
        if isinstance(node, ast.Compare) and ast.unparse(node.left) in certain[1:]:
            texts = [part for part in ast.walk(node) if isinstance(part, ast.Constant)]
            if any(map(_is_content_type, texts)):
                problem = f"{ast.unparse(node)} is never true: the context is a named tuple"
                yield node.lineno, problem, "compare context.request_content_type"
        if not isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
            continue
        of = next(iter(node.args), None) if isinstance(node, ast.Call) else node.value
        if isinstance(of, ast.Attribute) and of.attr in _METHODS and _needs_value(node):
            method = ast.unparse(of)
            if method == f"{arguments[0].arg}.{of.attr}" and arguments[0].arg in certain:
                yield node.lineno, f"{method} is a method, but isn't called", f"write {method}()"
        if not isinstance(of, ast.Name) or of.id not in certain:
            continue
        first = of.id == arguments[0].arg
        if isinstance(node, ast.Call):
            function = ast.unparse(node.func)
            if first and "stream" in called.is_a and function in _TAKE_TEXT:
                problem = f"{function}({of.id}): {of.id} is {called.is_a}"
                yield node.lineno, problem, f"write {function}({of.id}.read())"
        elif isinstance(node, ast.Subscript):
            key = isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
            if key and not (first and called.is_a == _ARRAYS):
                what = called.is_a if first else "a named tuple"
                problem = f"{ast.unparse(node)}: {of.id} is {what}"
                yield node.lineno, problem, "read it first" if first else "write context.NAME"
        elif first and node.attr in called.lacks:
            problem = f"{of.id}.{node.attr}: {of.id} is {called.is_a}"
            yield node.lineno, problem, "use an attribute that it has"
        elif not first and node.attr not in _CONTEXT and not node.attr.startswith("_"):
            problem = f"{of.id}.{node.attr}: the container's context has no {node.attr}"
            close = difflib.get_close_matches(node.attr, _CONTEXT, n=1)
            remedy = f"write {close[0]}" if close else "use an attribute that it has"
            yield node.lineno, problem, remedy


def _parse_sleep_seconds(call: ast.Call) -> float:
    """Return the seconds that a call sleeps, or 0 if the code doesn't show it."""
    match call:
        case ast.Call(func=function, args=[ast.Constant(value=int() | float() as seconds)]):
            return seconds if ast.unparse(function) in ("time.sleep", "sleep") else 0
    return 0


def _needs_value(node: ast.AST) -> bool:
    """Return whether the node uses its operand as a value, never as a function."""
    return isinstance(node, ast.Subscript) or (
        isinstance(node, ast.Call)
        and extract_last_name(node.func) in ("dumps", "loads", "array", "asarray", "len")
    )


def _find_return_faults(
    name: str, inside: list[ast.AST], called: _Called, first: str
) -> Iterator[_Wrong]:
    """Yield a fault for each returned value that the caller certainly can't unpack or send on."""
    if not called.returns:
        return
    yields = [node for node in inside if isinstance(node, ast.Yield | ast.YieldFrom)]
    if yields:
        # Two values can be unpacked from a generator, too; requests sends one in pieces.
        if called.returns == _BODY and len(yields) == 1 and isinstance(yields[0], ast.Yield):
            problem = f"{name} yields, so it returns a generator instead of a pair"
            yield yields[0].lineno, problem, f"return {called.returns}"
        return
    returns = [node for node in inside if isinstance(node, ast.Return)]
    does = [node for node in inside if isinstance(node, ast.stmt) and not _is_stub(node)]
    if does and not any(node.value for node in returns):
        yield does[0].lineno, f"{name} returns nothing", f"return {called.returns}"
        return
    assigned = find_single_assignments(inside)
    # There always is a request, so code for a missing one never runs.
    never = {f"not {first}", f"{first} is None"}
    tests = [node for node in inside if isinstance(node, ast.If)]
    absent = [ast.Module(node.body, []) for node in tests if ast.unparse(node.test) in never]
    unreached = {id(part) for module in absent for part in ast.walk(module)}
    for node in returns:
        value = node.value
        if id(node) in unreached:
            continue
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            yield node.lineno, f"{name} returns nothing here", f"return {called.returns}"
            continue
        shown = ast.unparse(value)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        if isinstance(value, ast.Name) and value.id in assigned:
            value = assigned[value.id]
        if called.returns == _REQUEST and _is_request_without_rows(value):
            problem = f"{name} returns {shown}, which has neither instances nor inputs"
            yield node.lineno, problem, 'return json.dumps({"instances": rows})'
        elif _is_invalid_response_value(value, called, first, assigned):
            yield node.lineno, f"{name} returns {shown}", f"return {called.returns}"
        elif called.returns == _BODY and _is_swapped_pair(value, assigned):
            remedy = "return the body first, then its content type"
            yield node.lineno, f"{name} returns {shown}", remedy


def _is_stub(statement: ast.stmt) -> bool:
    """Return whether a statement is a docstring, `...`, pass, or raise: unfinished code."""
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return constant or isinstance(statement, ast.Pass | ast.Raise)


def _is_invalid_response_value(
    value: ast.expr, called: _Called, first: str, assigned: Mapping[str, ast.expr]
) -> bool:
    pair = called.returns == _BODY
    if isinstance(value, ast.Tuple | ast.List):
        starred = any(isinstance(element, ast.Starred) for element in value.elts)
        if called.returns == _REQUEST:
            return isinstance(value, ast.Tuple)
        kind = value.elts[-1] if value.elts else None
        number = isinstance(kind, ast.Constant) and isinstance(kind.value, int | float)
        return pair and (len(value.elts) != 2 or number) and not starred
    if isinstance(value, ast.Dict | ast.DictComp):
        return called.returns != _ARRAYS
    if called.returns == _ARRAYS:
        return isinstance(value, ast.Constant | ast.JoinedStr) or _is_single_value(value)
    if isinstance(value, ast.Attribute):
        of = value.value.id if isinstance(value.value, ast.Name) else ""
        is_response = of == first or _is_response(assigned.get(of))
        return pair and value.attr in ("content", "text") and is_response
    return pair and (isinstance(value, ast.Constant | ast.JoinedStr) or _is_single_value(value))


def _is_request_without_rows(value: ast.expr) -> bool:
    """Return whether the value is JSON of a dict that TensorFlow Serving's REST API rejects."""
    if not (isinstance(value, ast.Call) and ast.unparse(value.func) == "json.dumps" and value.args):
        return False
    given = value.args[0]  # of a dict by name, keys may be added later
    keys = given.keys if isinstance(given, ast.Dict) else [None]
    names = {key.value if isinstance(key, ast.Constant) else None for key in keys}
    return not names & {None, *_ROWS}


def _is_single_value(value: ast.expr) -> bool:
    """Return whether a call returns one string, bytes object, number, or JSON value."""
    if not isinstance(value, ast.Call):
        return False
    name = extract_last_name(value.func)
    if isinstance(value.func, ast.Attribute):
        return name in _ONE_VALUE and ast.unparse(value.func) != "json.loads"
    return name in ("str", "bytes", "repr", "int", "float", "dumps", "jsonify")


def _is_response(value: ast.expr | None) -> bool:
    """Return whether the value comes from requests: requests.post(…), session.post(…)."""
    name = extract_last_name(value.func) if isinstance(value, ast.Call) else None
    return name in ("post", "get", "request")


def _is_swapped_pair(value: ast.expr, assigned: Mapping[str, ast.expr]) -> bool:
    """Return whether the value is (content type, body)."""
    if not isinstance(value, ast.Tuple) or len(value.elts) != 2:
        return False
    first, second = (
        assigned.get(element.id, element) if isinstance(element, ast.Name) else element
        for element in value.elts
    )
    return _is_content_type(first) and not _is_content_type(second)


def _is_content_type(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, str) and _CONTENT_TYPE.fullmatch(value.value) is not None
    return extract_last_name(value) in ("accept_header", "request_content_type", "content_type")
