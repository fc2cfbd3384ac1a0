"""Finds operations that run when a SavedModel is loaded: they restore variables and fill tables.

It follows them from the graph through the functions that the graph calls, as far as names of
tensors and of files are constants or assets.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servable_tensors import wire

_RESTORE, _ASSIGN = b"RestoreV2", frozenset({b"AssignVariableOp", b"Assign"})
FILLS = frozenset({b"InitializeTableFromTextFileV2", b"InitializeTableFromTextFile"})
PLACEHOLDERS = frozenset({b"Placeholder", b"PlaceholderV2"})
# Operations that create what must be filled before it is read. A mutable table may be read empty.
HOLDERS: Mapping[bytes, str] = {
    **dict.fromkeys((b"VarHandleOp", b"VariableV2", b"Variable"), "variable"),
    **dict.fromkeys((b"HashTableV2", b"HashTable", b"AnonymousHashTable"), "table"),
    **dict.fromkeys((b"IteratorV2", b"Iterator"), "iterator"),
    **{
        f"{kind}Queue{version}".encode(): "queue"
        for kind in ("FIFO", "PaddingFIFO", "RandomShuffle", "Priority")
        for version in ("", "V2")
    },
}
_NUMBER = re.compile(rb"\s*[+-]?[0-9]+\s*")
_MOST_STEPS = 100  # through operations that pass their input on


@dataclass(frozen=True, kw_only=True)
class RestoredVariable:
    """One tensor that is read from the checkpoint."""

    key: str
    dtype: str
    shape: tuple[int | None, ...] | None
    """Shape of the variable that takes it; None if it is not known, or the variable is partitioned."""


@dataclass(frozen=True, kw_only=True)
class VocabularyTable:
    """A table that is filled from a text file among the assets."""

    file: str
    key_column: int
    """-1: the line's number. -2: the whole line."""
    value_column: int
    delimiter: str
    lines: int
    """Lines that are read; -1 means all."""
    types: tuple[str, str] = ("", "")
    """Data types of key and value; empty if they are unknown."""


def find_vocabulary_fault(file: Path, table: VocabularyTable) -> str | None:
    """Describe why TensorFlow can't fill the table from the file; None if it can. Raises OSError.

    Source: tensorflow/core/kernels/lookup_util.cc (TextFileLineIterator) and lookup_table_op.h
    (DoInsert), tried with TensorFlow 2.21
    """
    lines = file.read_bytes().replace(b"\r", b"").split(b"\n")
    if not lines[-1]:
        del lines[-1]
    if not lines:
        return "is empty"
    if table.lines > len(lines):
        return f"has {len(lines)} lines, but the graph reads {table.lines}"
    values: dict[bytes | int, bytes | int] = {}
    for number, line in enumerate(lines[: table.lines] if table.lines > 0 else lines):
        if not line:
            return f"line {number + 1} is empty"
        columns = line.split(table.delimiter.encode())
        pair: list[bytes | int] = []
        for column in (table.key_column, table.value_column):
            if column >= len(columns):
                problem = f"line {number + 1} has {len(columns)} columns"
                return f"{problem}, but the graph reads column {column + 1}"
            whole = number if column == -1 else line
            pair.append(whole if column < 0 else columns[column])
        for given, dtype in zip(pair, table.types, strict=True):
            is_text = isinstance(given, bytes) and not _NUMBER.fullmatch(given)
            if is_text and dtype.startswith("int"):
                problem = f"{_format_key(given)!r} is not a number"
                return f"line {number + 1}: {problem}, but the table contains {dtype}"
        if values.setdefault(pair[0], pair[1]) != pair[1]:
            problem = f"the key {_format_key(pair[0])!r} occurs twice, with different values"
            return f"line {number + 1}: {problem}"
    return None


def _format_key(key: bytes | int) -> str:
    return key.decode(errors="replace")[:60] if isinstance(key, bytes) else str(key)


class Nodes:
    """The nodes of the graph, or of a function."""

    def __init__(self, nodes: Sequence[Any]) -> None:
        self.nodes = nodes
        self._by_name = {node.name: node for node in nodes}

    def find_node(self, tensor: bytes) -> Any | None:
        """Return the node that computes a tensor; None if it isn't one of these."""
        return self._by_name.get(tensor.lstrip(b"^").partition(b":")[0])

    def is_fed(self, _: bytes) -> bool:
        """Return whether a request gives the tensor, so that its node doesn't run."""
        return False

    def walk_needed_nodes(self, tensors: Iterable[bytes]) -> Iterator[Any]:
        """Yield every node that runs for these tensors."""
        waiting, seen = list(tensors), set()
        while waiting:
            tensor = waiting.pop()
            node = self.find_node(tensor)
            if node is not None and node.name not in seen and not self.is_fed(tensor):
                seen.add(node.name)
                yield node
                waiting += node.input


class _Frame(Nodes):
    """The nodes of the graph, or of one call of a function."""

    def __init__(self, nodes: Sequence[Any], arguments: Mapping[bytes, Any]) -> None:
        super().__init__(nodes)
        self._arguments = arguments
        # TensorFlow 2 passes an asset's path on through a variable.
        assigning = (node for node in nodes if node.op == b"AssignVariableOp")
        self._assigned = {node.input[0]: node.input[1] for node in assigning}

    def find_source(self, tensor: bytes) -> tuple[Any, int]:
        """Return (node, output number) that computes a tensor; node None if unknown."""
        for _ in range(_MOST_STEPS):
            name, _, output = tensor.partition(b":")
            if name in self._arguments:
                return self._arguments[name], 0
            node, handed_on = self.find_node(name), None
            if node is not None and node.op in (b"Identity", b"Cast"):
                handed_on = node.input[0]
            elif node is not None and node.op == b"ReadVariableOp":
                handed_on = self._assigned.get(node.input[0])
            if handed_on is None:
                return node, int(output.rpartition(b":")[2] or 0)
            tensor = handed_on
        return None, 0

    def list_inputs(self, node: Any) -> list[bytes]:
        return [tensor for tensor in node.input if not tensor.startswith(b"^")]


class Initialization:
    """The initialization of one graph, with these nodes.

    `function` maps a name to its FunctionDef, or None.
    """

    def __init__(self, nodes: Sequence[Any], function: Callable[[str], Any | None]) -> None:
        self._function, self._graph = function, _Frame(nodes, {})

    def find_restored_variables(self, operation: str) -> Iterator[RestoredVariable]:
        """Yield the tensors that a graph's restore operation reads from the checkpoint."""
        nodes = list(self._graph.walk_needed_nodes([operation.encode()]))
        for frame, part in self._walk_frames(self._graph, nodes, frozenset()):
            shapes: dict[tuple[bytes, int], Any] = {}
            for node in part:
                if node.op in _ASSIGN:
                    variable, value = map(frame.find_source, frame.list_inputs(node)[:2])
                    if variable[0] is not None and value[0] is not None:
                        shape = parse_attributes(variable[0]).get("shape")
                        shapes[value[0].name, value[1]] = shape
            for node in part:
                if node.op == _RESTORE:
                    yield from _parse_restored(node, frame, shapes)

    def find_vocabularies(self, files: Mapping[bytes, str]) -> Iterator[VocabularyTable]:
        """Yield the tables that are filled from the assets; `files`: asset by the node that it feeds."""
        for frame, part in self._walk_frames(self._graph, self._graph.nodes, frozenset()):
            for node in part:
                inputs = frame.list_inputs(node)
                if node.op not in FILLS or len(inputs) < 2:
                    continue
                asset, _ = frame.find_source(inputs[1])
                if asset is None or asset.name not in files:
                    continue
                given = parse_attributes(node)
                handle, _ = frame.find_source(inputs[0])
                types = {} if handle is None else parse_attributes(handle)
                key, value = (
                    wire.find_dtype_name(types[name].type) if name in types else ""
                    for name in ("key_dtype", "value_dtype")
                )
                yield VocabularyTable(
                    types=(key, value),
                    file=files[asset.name],
                    key_column=given["key_index"].i,
                    value_column=given["value_index"].i,
                    delimiter=given["delimiter"].s.decode() if "delimiter" in given else "\t",
                    lines=given["vocab_size"].i if "vocab_size" in given else -1,
                )

    def _walk_frames(
        self, frame: _Frame, nodes: Sequence[Any], above: frozenset[str]
    ) -> Iterator[tuple[_Frame, Sequence[Any]]]:
        """Yield the frame with these of its nodes, and one frame for each call among them."""
        yield frame, nodes
        for node in nodes:
            name = parse_attributes(node)["f"].func.name if node.op in _CALLS else node.op.decode()
            function = None if name in above else self._function(name)
            if function is None:
                continue
            given = [frame.find_source(tensor)[0] for tensor in frame.list_inputs(node)]
            names = [argument.name.encode() for argument in function.signature.input_arg]
            body = _Frame(function.node_def, dict(zip(names, given, strict=False)))
            yield from self._walk_frames(body, function.node_def, above | {name})


_CALLS = frozenset({b"PartitionedCall", b"StatefulPartitionedCall"})


def parse_attributes(node: Any) -> dict[str, Any]:
    """Return each attribute's wire.AttrValue, by name."""
    entries = map(wire.AttrEntry.FromString, node.attr)
    return {entry.key: entry.value for entry in entries}


def _parse_restored(
    node: Any, frame: _Frame, shapes: Mapping[tuple[bytes, int], Any]
) -> Iterator[RestoredVariable]:
    _, names, slices = frame.list_inputs(node)[:3]
    keys, parts = (_read_strings(frame.find_source(each)[0]) for each in (names, slices))
    dtypes = parse_attributes(node)["dtypes"].list.type
    for number, (key, dtype) in enumerate(zip(keys, dtypes, strict=False)):
        written = shapes.get((node.name, number))
        whole = number < len(parts) and not parts[number]
        shape = None
        if written is not None and whole:
            message = wire.TensorShapeProto.FromString(written.shape)
            sizes = tuple(None if dim.size < 0 else dim.size for dim in message.dim)
            shape = None if message.unknown_rank else sizes
        yield RestoredVariable(key=key.decode(), dtype=wire.find_dtype_name(dtype), shape=shape)


def _read_strings(node: Any) -> list[bytes]:
    """Return the strings of a constant, or none if the node isn't a constant."""
    if node is None or node.op != b"Const":
        return []
    tensor = wire.TensorProto.FromString(parse_attributes(node)["value"].tensor)
    count = math.prod(dim.size for dim in tensor.tensor_shape.dim)
    values: list[bytes] = list(tensor.string_val)
    # protobuf's short form: the last value is repeated.
    return [*values, *values[-1:] * (count - len(values))]
