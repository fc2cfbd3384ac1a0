"""Reads the operations of a SavedModel's graph, with their attributes, function by function.

It reads without TensorFlow, and only what TensorFlow Serving loads: the graph itself, and the
functions that it calls. Keras saves more functions, for Python, which the container never reads.
"""

import dataclasses
import hashlib
import json
import mmap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError
from pydantic import TypeAdapter

from model_packaging.beside import write_atomically
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.graph_file import (
    FILE_INPUTS,
    LARGE_BYTES,
    VALUE,
    VARIABLE_OPS,
    GraphOperations,
    Operation,
    Place,
    encode_field,
    find_function_names,
    find_messages,
    parse_attribute,
    read_first,
    read_meta_graphs,
    read_node,
    reduce_attribute,
)
from model_packaging.saved_model.initialization import FILLS, HOLDERS, PLACEHOLDERS, Initialization
from model_packaging.saved_model.reading import METHODS, select_served_graph
from model_packaging.saved_model.unfilled import UnfilledReads
from servable_tensors import wire
from servable_tensors.wire import BYTES, Buffer, WireError, iterate_fields

# Field numbers of tensorflow/core/framework/{graph,function,op_def}.proto.
_NODE, _LIBRARY, _VERSIONS, _FUNCTION = 1, 2, 4, 1
_FUNCTION_NODE, _FUNCTION_ATTR, _FUNCTION_NAME = 3, 5, (1, 1)
# Nodes that are all kept as messages take ten times these bytes.
_MOST_FOLLOWED_BYTES = 1 << 24
# A larger node is a constant of numbers: names of variables and files take less.
_NUMBERS_BYTES = 1 << 20
# Names of what may have to be filled inside a function; or a device of a different computer.
_INSIDE = (*PLACEHOLDERS, b"/job:")
# More than the name of a node that is searched for.
_NAME_BYTES = 1 << 12
_MUST_COMPILE = "_XlaMustCompile"
# Beginning of an entry of NodeDef.attr with this key.
_COMPILE = b"\n\x0f_XlaMustCompile\x12"
# From this size on, the result is cached by the file's SHA-256. A larger file is mostly constants:
# reading the rest is faster than hashing the whole file.
CACHED_FROM_BYTES, _CACHED_TO_BYTES = 1 << 20, 1 << 27
FOLDER = "graph-operations"
# Increase it when different content is read or the cache's format changes.
_FORMAT = 3

_FILE_OPS = frozenset(name.encode() for name in FILE_INPUTS)


def read_operations(version: Path, *, cache: Path | None = None) -> GraphOperations:
    """Return what TensorFlow Serving loads of the SavedModel in a version folder.

    Raises `PackagingError`, OSError. `cache`: the project's .servable, so that no graph is parsed twice.
    """
    file = version / "saved_model.pb"
    graph = select_served_graph(file, read_meta_graphs(file, variables=False))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        cached = None
        if cache is not None and CACHED_FROM_BYTES <= len(data) <= _CACHED_TO_BYTES:
            cached = cache / FOLDER / f"{hashlib.sha256(data).hexdigest()}-{_FORMAT}.json"
        if cached is not None and (result := _read_cache(cached)) is not None:
            return result
        try:
            assets = {
                asset.tensor_info.name.partition(":")[0].encode(): asset.filename
                for asset in graph.message.asset_file_def
            }
            reading = _Reading(data, graph.graph_def)
            operations = reading.read(None if graph.has_asset_collection else frozenset(assets))
            ops = {operation.op.encode() for operation in operations}
            restore = graph.message.saver_def.restore_op_name if ops & VARIABLE_OPS else ""
            files = assets if ops & FILLS else {}
            is_followed = bool(ops & HOLDERS.keys()) or reading.has_unfed_nodes(graph.message)
            nodes = reading.list_nodes() if restore or files or is_followed else []
            restored = vocabularies = unfilled = None
            if nodes is not None:
                at_load = Initialization(nodes, reading.read_function)
                restored = tuple(at_load.find_restored_variables(restore))
                vocabularies = tuple(at_load.find_vocabularies(files))
                reads = UnfilledReads(nodes, reading.read_function)
                found = reads.find_unfilled(graph.message, methods=METHODS, init_op=graph.init_op)
                unfilled = tuple(found) if is_followed else ()
            result = GraphOperations(
                producer=reading.producer,
                min_consumer=reading.min_consumer,
                bad_consumers=reading.bad_consumers,
                has_assets=bool(assets) or graph.has_asset_collection,
                operations=operations,
                restored=restored,
                vocabularies=vocabularies,
                unfilled=unfilled,
            )
        except (WireError, DecodeError, UnicodeDecodeError, IndexError) as damage:
            problem = f"is truncated or damaged ({damage})"
            raise PackagingError(file, problem, "export it again, or copy it again") from None
    if cached is not None:
        try:
            write_atomically(cached, json.dumps(dataclasses.asdict(result)).encode())
        except OSError:
            pass  # the graph is read again next time
    return result


class _Reading:
    """A reader of one GraphDef, and of its functions as they are called."""

    def __init__(self, data: Buffer, places: Iterable[Place]) -> None:
        self._data = data
        # Operations with attributes, by whether XLA compiles them.
        self._seen: list[set[tuple[bytes, ...]]] = [set(), set()]
        self._main = list(places)
        others = [
            (number, first, last)
            for place in self._main
            for number, kind, first, last in iterate_fields(data, *place)
            if kind == BYTES and number != _NODE
        ]
        parts = [data[first:last] for number, first, last in others if number == _VERSIONS]
        versions = list(map(wire.VersionDef.FromString, parts))
        self.producer = max((version.producer for version in versions), default=0)
        self.min_consumer = max((version.min_consumer for version in versions), default=0)
        self.bad_consumers = tuple(bad for version in versions for bad in version.bad_consumers)
        self.functions = {
            read_first(data, place, *_FUNCTION_NAME).decode(): place
            for number, start, end in others
            if number == _LIBRARY
            for place in find_messages(data, (start, end), _FUNCTION)
        }
        self._found: dict[str, Operation] = {}
        self._is_named_inside = False

    def list_nodes(self) -> list[Any] | None:
        """Return the graph's own nodes; None if they are too large without their constants."""
        nodes, size = [], 0
        for place in self._main:
            for node in find_messages(self._data, place, _NODE):
                body = read_node(self._data, *node, largest=_NUMBERS_BYTES)
                nodes.append(wire.NodeDef.FromString(body))
                size += len(body)
                if size > _MOST_FOLLOWED_BYTES:
                    return None
        return nodes

    def has_unfed_nodes(self, message: Any) -> bool:
        """Return whether a signature may need a placeholder or another computer's device.

        A search of the bytes avoids following a frozen graph.
        """
        if self._is_named_inside:
            return True
        fed = [
            {tensor.name.partition(":")[0] for tensor in signature.inputs.values()}
            for signature in message.signature_def.values()
        ]
        shared = set.intersection(*fed) if fed else set()
        fed_by_all = [encode_field(_NODE, name.encode()) for name in shared]
        for start, end in self._main:
            if self._data.find(b"/job:", start, end) >= 0:
                return True
            at = start
            while (at := self._data.find(b"Placeholder", at, end)) >= 0:
                before = self._data[max(start, at - _NAME_BYTES) : at - 2]
                if not any(before.endswith(name) for name in fed_by_all):
                    return True
                at += 1
        return False

    def read_function(self, name: str) -> Any | None:
        """Return a wire.FunctionDef without large constants; None for an unknown name."""
        if name not in self.functions:
            return None
        first, last = self.functions[name]
        if last - first < _MOST_FOLLOWED_BYTES:
            return wire.FunctionDef.FromString(self._data[first:last])
        parts = []
        for number, kind, start, end in iterate_fields(self._data, first, last):
            if kind == BYTES:
                largest = _NUMBERS_BYTES if number == _FUNCTION_NODE else end
                body = read_node(self._data, start, end, largest=largest)
                parts.append(encode_field(number, body))
        return wire.FunctionDef.FromString(b"".join(parts))

    def read(self, assets: frozenset[bytes] | None) -> tuple[Operation, ...]:
        """Return the operations that TensorFlow Serving loads.

        `assets`: nodes that are fed with the paths of assets; None if any node may be.
        """
        calls = [
            call
            for place in self._main
            for call in self._add_operations("", place, _NODE, False, assets)
        ]
        read: set[str] = set()
        # What runs without XLA first: the rest is only ever compiled.
        for compiled in (False, True):
            waiting = [name for name, call_compiled in calls if call_compiled <= compiled]
            while waiting:
                name = waiting.pop()
                if name in read or name not in self.functions:
                    continue
                place = self.functions[name]
                # The search spares a walk through nearly all functions.
                is_compiled = self._data.find(_COMPILE, *place) >= 0 and any(
                    parse_attribute(self._data[first:last]) == (_MUST_COMPILE, ("b", True))
                    for first, last in find_messages(self._data, place, _FUNCTION_ATTR)
                )
                if not compiled and is_compiled:
                    calls.append((name, True))
                    continue
                read.add(name)
                self._is_named_inside |= any(self._data.find(op, *place) >= 0 for op in _INSIDE)
                more = self._add_operations(name, place, _FUNCTION_NODE, compiled, frozenset())
                calls += more
                waiting += [callee for callee, call_compiled in more if call_compiled <= compiled]
        return tuple(self._found.values())

    def _add_operations(
        self,
        function: str,
        place: Place,
        field: int,
        compiled: bool,
        assets: frozenset[bytes] | None,
    ) -> list[tuple[str, bool]]:
        """Add the new operations; return their callees, and for each whether XLA compiles it."""
        calls: list[tuple[str, bool]] = []
        seen = self._seen[compiled]
        for inside in find_messages(self._data, place, field):
            node = wire.NodeDef.FromString(read_node(self._data, *inside, largest=LARGE_BYTES))
            op = node.op
            kept = [entry for entry in node.attr if entry[2:3] != b"_" or _COMPILE in entry]
            entries = tuple(map(reduce_attribute, kept))
            if (op, *entries) in seen and op not in _FILE_OPS:
                continue
            seen.add((op, *entries))
            attributes = dict(map(parse_attribute, entries))
            must_compile = attributes.pop(_MUST_COMPILE, None) == ("b", True)
            called = [*find_function_names(attributes.values()), op.decode()]
            own = (name for name in called if name in self.functions)
            calls += [(name, compiled or must_compile) for name in own]
            if called[-1] in self.functions:
                continue  # a call, as TensorFlow 1 wrote it: the function's name is the operation
            # Which function is called is no longer of interest: calls of any are one operation.
            attributes = {
                name: (kind, None) if "func" in kind else (kind, value)
                for name, (kind, value) in attributes.items()
            }
            path = self._find_path(node, place, field, assets) if op in _FILE_OPS else None
            key = f"{op!r} {compiled} {path} {sorted(attributes.items())}"
            self._found[key] = self._found.get(key) or Operation(
                op=called[-1],
                function=function,
                node=node.name.decode(),
                attributes=attributes,
                compiled=compiled,
                path=path,
            )
        return calls

    def _find_path(
        self, node: Any, place: Place, field: int, assets: frozenset[bytes] | None
    ) -> str | None:
        """Return the path that a constant gives; None if it is computed or an asset's."""
        inputs = [name for name in node.input if not name.startswith(b"^")]
        number = FILE_INPUTS[node.op.decode()]
        name = inputs[number].partition(b":")[0] if number < len(inputs) else b""
        if assets is None or name in assets:
            return None
        named = encode_field(_NODE, name) + encode_field(2, b"Const")  # how such a node begins
        begin = self._data.find(named, *place) if name else -1
        for first, last in find_messages(self._data, place, field) if begin >= 0 else ():
            if first != begin:
                continue
            for entry in wire.NodeDef.FromString(self._data[first:last]).attr:
                if entry.startswith(VALUE):
                    tensor = wire.AttrEntry.FromString(entry).value.tensor
                    values = wire.TensorProto.FromString(tensor).string_val
                    return values[0].decode(errors="replace") if values else None
        return None


def _read_cache(file: Path) -> GraphOperations | None:
    try:
        return TypeAdapter(GraphOperations).validate_json(file.read_bytes())
    except (OSError, ValueError):
        return None  # missing or damaged: the graph is read again
