"""Operations of a SavedModel's graph, with their attributes, function by function.

Read without TensorFlow, and only what TensorFlow Serving loads: the graph itself, and the
functions that it calls. Keras saves more functions, for Python, which the container never reads.
"""

import dataclasses
import functools
import hashlib
import json
import mmap
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from model_packaging.beside import beside
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.graph_file import meta_graphs
from model_packaging.saved_model.initialization import (
    FILLS,
    Initialization,
    RestoredVariable,
    VocabularyTable,
)
from model_packaging.saved_model.reading import served
from servable_tensors import wire
from servable_tensors.wire_fields import BYTES, Buffer, WireError, fields, written_varint

# Field numbers of tensorflow/core/framework/{graph,function,op_def}.proto.
_NODE, _SIGNATURE, _NAME = 1, 1, 1
# A graph up to this size is parsed as it is; of a larger one the constants are left out.
_WHOLE_BYTES = 1 << 27
_LARGE_BYTES = 1 << 16
# Most bytes kept of an attribute that is a string: a path, or the version of a StableHLO module.
_STRING_BYTES = 256
# Attributes of one operation that are remembered as they are written, to pass over them at once.
_MOST_SEEN = 4096
# Portable StableHLO is MLIR's bytecode, in which names end with a zero: add_v1, gather_v2.
# Source: https://mlir.llvm.org/docs/BytecodeFormat/, read 2026-11-22
_BYTECODE = b"ML\xefR"
_HEAD_BYTES = 40
_VERSIONED = re.compile(rb"(?<![a-z0-9_])[a-z][a-z0-9_]*_v[0-9]+(?=\0)")
_MUST_COMPILE = "_XlaMustCompile"
# How an entry of NodeDef.attr begins whose key is "value" (what a constant holds), "module", or this.
_VALUE = b"\n\x05value\x12"
_MODULE = b"\n\x06module\x12"
_COMPILE = b"\n\x0f_XlaMustCompile\x12"
# From this size on, what was read is kept by the file's SHA-256; of a file that is mostly constants
# reading the rest is faster than hashing all.
CACHED_FROM_BYTES = 1 << 20
FOLDER = "graph-operations"
# Raise it when something else is read, or kept in another form.
_FORMAT = 2

Attribute = tuple[str, Any]
"""Which field of AttrValue it is ("s", "i", "list(type)", "list()" where a list is empty), and the
value as JSON has it: the beginning of a string, None for shapes, tensors and functions."""


@dataclass(frozen=True, kw_only=True)
class Operation:
    """The nodes that have the same operation and attributes."""

    op: str
    function: str
    """Where the first of them is; "" for the graph itself."""
    node: str
    """The first of them."""
    attributes: Mapping[str, Attribute]
    """Without those that begin with _, which TensorFlow takes with any operation."""
    compiled: bool
    """Compiled by XLA, which has kernels of its own."""
    path: str | None = None
    """The file that it reads or writes, where a constant beside it names one."""


@dataclass(frozen=True, kw_only=True)
class GraphOperations:
    """The part that TensorFlow Serving loads of one SavedModel."""

    producer: int
    """The version of GraphDef that wrote it."""
    min_consumer: int
    bad_consumers: tuple[int, ...]
    has_assets: bool
    operations: tuple[Operation, ...]
    """Each with its first place: in the graph, or else in a function that it calls."""
    restored: tuple[RestoredVariable, ...] = ()
    """Variables that are read from the checkpoint."""
    vocabularies: tuple[VocabularyTable, ...] = ()


# What takes the name of a file: which input that is. Those whose file is one of the model's own
# checkpoints (RestoreV2, SaveV2 …) are none of them.
# Source: tensorflow/core/ops/{io,lookup,dataset,experimental_dataset,summary}_ops.cc, read 2026-11-22
FILE_INPUTS: Mapping[str, int] = {
    "ReadFile": 0,
    "WriteFile": 0,
    "MatchingFiles": 0,
    "InitializeTableFromTextFile": 1,
    "InitializeTableFromTextFileV2": 1,
    "TextLineDataset": 0,
    "TFRecordDataset": 0,
    "TFRecordDatasetV2": 0,
    "FixedLengthRecordDataset": 0,
    "FixedLengthRecordDatasetV2": 0,
    "MatchingFilesDataset": 0,
    "LoadDataset": 0,
    "SaveDataset": 1,
    "CreateSummaryFileWriter": 1,
}


_FILE_OPS = frozenset(name.encode() for name in FILE_INPUTS)
# In the place of what a constant holds.
_TENSOR = wire.AttrEntry(key="value", value=wire.AttrValue(tensor=b"")).SerializeToString()


def operations(version: Path, *, cache: Path | None = None) -> GraphOperations:
    """The part that is loaded of the SavedModel in a version folder. Raises `PackagingError`, OSError.

    `cache`: the project's .servable, which spares parsing a large graph twice.
    """
    file = version / "saved_model.pb"
    graph = served(file, meta_graphs(file))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cached = None
        if cache is not None and CACHED_FROM_BYTES <= len(data) <= _WHOLE_BYTES:
            cached = cache / FOLDER / f"{hashlib.sha256(data).hexdigest()}-{_FORMAT}.json"
        if cached is not None and (result := _cached(cached)) is not None:
            return result
        try:
            assets = frozenset(
                asset.tensor_info.name.partition(":")[0] for asset in graph.message.asset_file_def
            )
            reading = _Reading(data, graph.graph_def)
            operations = reading.read(None if graph.has_asset_collection else assets)
            initialization = reading.initialization
            restore = graph.message.saver_def.restore_op_name if graph.has_variables else ""
            files = {
                asset.tensor_info.name.partition(":")[0].encode(): asset.filename
                for asset in graph.message.asset_file_def
            }
            if not any(operation.op in FILLS for operation in operations):
                files = {}
            result = GraphOperations(
                producer=reading.producer,
                min_consumer=reading.min_consumer,
                bad_consumers=reading.bad_consumers,
                has_assets=bool(assets) or graph.has_asset_collection,
                operations=operations,
                restored=tuple(initialization.restored(restore)) if restore else (),
                vocabularies=tuple(initialization.vocabularies(files)) if files else (),
            )
        except (WireError, DecodeError, UnicodeDecodeError) as damage:
            problem = f"is truncated or damaged ({damage})"
            raise PackagingError(file, problem, "export it again, or copy it again") from None
    if cached is not None:
        try:
            with beside(cached) as kept:
                kept.write(json.dumps(dataclasses.asdict(result)).encode())
        except OSError:
            pass  # a project that cannot be written is read again next time
    return result


class _Reading:
    """One GraphDef, from which functions are read as they are called."""

    def __init__(self, data: Buffer, places: Iterable[tuple[int, int]]) -> None:
        graphs = [
            wire.GraphDef.FromString(part) for place in places for part in _parts(data, *place)
        ]
        self.producer = max((graph.versions.producer for graph in graphs), default=0)
        self.min_consumer = max((graph.versions.min_consumer for graph in graphs), default=0)
        self.bad_consumers = tuple(bad for graph in graphs for bad in graph.versions.bad_consumers)
        self._nodes = [graph.node for graph in graphs]
        bodies = (body for graph in graphs for body in graph.library.function)
        self._functions = {_function_name(body): body for body in bodies}
        self._found: dict[str, Operation] = {}
        # By whether XLA compiles it, and operation: the attributes with which it was seen.
        self._seen: list[defaultdict[bytes, set[tuple[bytes, ...]]]]
        self._seen = [defaultdict(set), defaultdict(set)]

    @property
    def initialization(self) -> Initialization:
        nodes = [node for nodes in self._nodes for node in nodes]
        return Initialization(nodes, self._functions)

    def read(self, assets: frozenset[str] | None) -> tuple[Operation, ...]:
        """`assets`: nodes of the graph that are fed with the paths of assets; None: any may be."""
        calls = [call for nodes in self._nodes for call in self._add("", nodes, False, assets)]
        read: set[str] = set()
        # What runs without XLA first: the rest is only ever compiled.
        for compiled in (False, True):
            waiting = [name for name, call_compiled in calls if call_compiled <= compiled]
            while waiting:
                name = waiting.pop()
                if name in read or name not in self._functions:
                    continue
                function = wire.FunctionDef.FromString(self._functions[name])
                compiles = [entry for entry in function.attr if entry.startswith(_COMPILE)]
                if not compiled and any(_attribute(entry)[1] == ("b", True) for entry in compiles):
                    calls.append((name, True))
                    continue
                read.add(name)
                more = self._add(name, function.node_def, compiled, frozenset())
                calls += more
                waiting += [callee for callee, call_compiled in more if call_compiled <= compiled]
        return tuple(self._found.values())

    def _add(
        self, function: str, nodes: Sequence[Any], compiled: bool, assets: frozenset[str] | None
    ) -> list[tuple[str, bool]]:
        """Adds what is new in the nodes; returns the functions that they call, and which compiled."""
        calls: list[tuple[str, bool]] = []
        seen = self._seen[compiled]
        for node in nodes:
            op, written = node.op, tuple(node.attr)
            seen_of_op = seen[op]
            # Nearly all end here or a little below: the rest is for what a graph has once.
            if written in seen_of_op:
                continue
            entries = tuple([entry for entry in written if entry[2:3] != b"_" or _COMPILE in entry])
            if entries not in seen_of_op:
                entries = tuple(map(_canonical, entries))
            is_new = entries not in seen_of_op or op in _FILE_OPS
            if op not in _FILE_OPS:
                seen_of_op.add(entries)
                if len(seen_of_op) < _MOST_SEEN and sum(map(len, written)) < _LARGE_BYTES:
                    seen_of_op.add(written)
            if not is_new:
                continue
            attributes = dict(map(_attribute, entries))
            must_compile = attributes.pop(_MUST_COMPILE, None) == ("b", True)
            called = [*_named_functions(attributes.values()), op.decode()]
            calls += [
                (name, compiled or must_compile) for name in called if name in self._functions
            ]
            if called[-1] in self._functions:
                continue  # a call, as TensorFlow 1 wrote it: the function's name is the operation
            # Which function is called is no longer of interest: calls of any are one operation.
            attributes = {
                name: (kind, None) if "func" in kind else (kind, value)
                for name, (kind, value) in attributes.items()
            }
            path = _path(node, nodes, assets) if op in _FILE_OPS else None
            operation = Operation(
                op=called[-1],
                function=function,
                node=node.name.decode(),
                attributes=attributes,
                compiled=compiled,
                path=path,
            )
            self._found.setdefault(
                f"{op!r} {compiled} {path} {sorted(attributes.items())}", operation
            )
        return calls


def _parts(data: Buffer, start: int, end: int) -> Iterator[bytes]:
    """The fields of a GraphDef in parts that fit into memory, each a GraphDef again.

    In a graph that is larger than that, a node with a large constant comes without it.
    """
    if end - start <= _WHOLE_BYTES:
        yield data[start:end]
        return
    run = behind = start
    for number, kind, first, last in fields(data, start, end):
        if kind != BYTES:
            continue
        large = number == _NODE and last - first > _LARGE_BYTES
        if large or last - run > _WHOLE_BYTES:
            yield data[run:behind]
            run = last if large else behind
        if large:
            yield _without_constant(data, first, last)
        behind = last
    yield data[run:behind]


def _without_constant(data: Buffer, start: int, end: int) -> bytes:
    kept = []
    for number, kind, first, last in fields(data, start, end):
        if kind == BYTES:
            body = _TENSOR if last - first > _LARGE_BYTES else data[first:last]
            kept += [bytes((number << 3 | kind,)), written_varint(len(body)), body]
    body = b"".join(kept)
    return bytes((_NODE << 3 | BYTES,)) + written_varint(len(body)) + body


def _function_name(body: bytes) -> str:
    """Name of a FunctionDef: the first field of its signature, which is its first field."""
    for number, kind, first, last in fields(body, 0, len(body)):
        if number == _SIGNATURE and kind == BYTES:
            for inner, inner_kind, begin, behind in fields(body, first, last):
                if inner == _NAME and inner_kind == BYTES:
                    return body[begin:behind].decode()
    return ""


def _path(node: Any, nodes: Sequence[Any], assets: frozenset[str] | None) -> str | None:
    """The file that a constant names; None where it is computed, or filled in as an asset's."""
    inputs = [name for name in node.input if not name.startswith(b"^")]
    place = FILE_INPUTS[node.op.decode()]
    name = inputs[place].partition(b":")[0] if place < len(inputs) else b""
    if assets is None or name.decode() in assets:
        return None
    for constant in nodes:
        if constant.name != name or constant.op != b"Const":
            continue
        for entry in constant.attr:
            if entry.startswith(_VALUE):
                tensor = wire.AttrEntry.FromString(entry).value.tensor
                values = wire.TensorProto.FromString(tensor).string_val
                return values[0].decode(errors="replace") if values else None
    return None


def _canonical(entry: bytes) -> bytes:
    """The attribute itself, or in its place one that says the same without what it holds."""
    if len(entry) < _STRING_BYTES and not entry.startswith((_VALUE, _MODULE)):
        return entry
    message = wire.AttrEntry.FromString(entry)
    kind = message.value.WhichOneof("value")
    if kind == "tensor":
        message.value.tensor = b""
    elif kind == "s":
        text = message.value.s
        message.value.s = text[:_STRING_BYTES]
        if text.startswith(_BYTECODE):  # a StableHLO module: also the names of its operations
            names = sorted(set(_VERSIONED.findall(text)))
            message.value.s = b"\0".join((text[:_HEAD_BYTES], *names))
    return bytes(message.SerializeToString())


@functools.lru_cache(maxsize=1 << 14)
def _attribute(entry: bytes) -> tuple[str, Attribute]:
    message = wire.AttrEntry.FromString(entry)
    return message.key, attribute_value(message.value)


def attribute_value(message: Any) -> Attribute:
    """An AttrValue as kind and value. `message`: wire.AttrValue."""
    kind = message.WhichOneof("value") or ""
    if kind == "list":
        kinds = [item.name for item, _ in message.list.ListFields()]
        several = (
            [_plain(kinds[0], item) for item in getattr(message.list, kinds[0])] if kinds else []
        )
        return f"list({''.join(kinds)})", several
    return kind, _plain(kind, getattr(message, kind)) if kind else None


def _plain(kind: str, value: Any) -> Any:
    if kind == "s":
        # latin-1: any byte has a character.
        return value.decode("latin-1")
    if kind == "func":
        return value.name
    return None if kind in ("shape", "tensor") else value


def _named_functions(attributes: Iterable[Attribute]) -> Iterator[str]:
    for kind, value in attributes:
        if kind == "func":
            yield value
        elif kind == "list(func)":
            yield from value


def _cached(file: Path) -> GraphOperations | None:
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
        result = []
        for row in table.pop("operations"):
            row["attributes"] = {name: tuple(pair) for name, pair in row["attributes"].items()}
            result.append(Operation(**row))
        bad = tuple(table.pop("bad_consumers"))
        restored = tuple(
            RestoredVariable(
                **row | {"shape": None if row["shape"] is None else tuple(row["shape"])}
            )
            for row in table.pop("restored")
        )
        vocabularies = tuple(VocabularyTable(**row) for row in table.pop("vocabularies"))
        return GraphOperations(
            **table,
            bad_consumers=bad,
            operations=tuple(result),
            restored=restored,
            vocabularies=vocabularies,
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # not there, or damaged: it is read again
