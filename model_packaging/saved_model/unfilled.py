"""Finds what a signature reads and nothing fills: a model that loads, and fails with every request.

TensorFlow Serving restores the variables of a SavedModel, runs one initialization operation, and then
computes the outputs of a signature from its inputs. This module follows the graph from the outputs
back, through the functions that it calls, and compares the variables, tables, iterators, and queues
that are read with those that restoring and initialization write.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from model_packaging.saved_model.initialization import (
    FILLS,
    HOLDERS,
    PLACEHOLDERS,
    Nodes,
    parse_attributes,
)

# A VarHandleOp of this name is new in each run, like other anonymous holders.
# Source: ResourceHandle::ANONYMOUS_NAME, tensorflow/core/framework/resource_handle.h
_ANONYMOUS = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"
_WRITES = re.compile(
    rb"Assign(VariableOp|VariableXlaConcatND)?|InitializeTable.*|LookupTable(Import|Insert)(V2)?"
    rb"|MakeIterator|QueueEnqueue.*"
)
# These work before anything is filled.
_HARMLESS = re.compile(
    rb"VarIsInitializedOp|IsVariableInitialized|LookupTableSize(V2)?|DestroyResourceOp|Queue(Size|Close).*"
    rb"|NoOp|Iterator(ToStringHandle|FromStringHandle).*"
)
# These pass on a handle, or the value of a variable that TensorFlow 1 kept by reference.
_PASSES = re.compile(
    rb"Identity|IdentityN|Cast|(Ref)?(Identity|Switch|Merge|Enter|Exit|NextIteration)|StopGradient"
)
# Attributes that name the functions of an operation, and how many inputs precede their arguments.
_CALLS: Mapping[bytes, tuple[tuple[str, ...], int]] = {
    **dict.fromkeys(
        (b"PartitionedCall", b"StatefulPartitionedCall", b"BatchFunction"), (("f",), 0)
    ),
    **dict.fromkeys((b"If", b"StatelessIf"), (("then_branch", "else_branch"), 1)),
    **dict.fromkeys((b"Case", b"StatelessCase"), (("branches",), 1)),
    **dict.fromkeys((b"While", b"StatelessWhile"), (("cond", "body"), 0)),
}
_OTHER_JOB = re.compile(rb"/job:(?!localhost\b)\w+")
_MOST_NAMES = 3  # in a message


@dataclass(frozen=True, kw_only=True)
class Unfilled:
    """The names of one kind that are read and never filled."""

    signature: str
    """Name of the signature that reads it; "" if loading the model does."""
    kind: str
    """variable, table, iterator, queue, placeholder, path, or device."""
    names: tuple[str, ...]


@dataclass(frozen=True)
class _Holder:
    """A variable, table, iterator, or queue."""

    kind: str
    key: bytes
    name: bytes = field(compare=False)
    """Name for messages."""
    is_anonymous: bool


_Root = int | _Holder
"""What a tensor comes from: an argument of the function, or a holder."""


@dataclass
class _Uses:
    """What the nodes of the graph, or of a function, do with their inputs."""

    reads: set[_Root] = field(default_factory=set)
    """Read before the same nodes fill it."""
    writes: set[_Root] = field(default_factory=set)
    paths: set[_Root] = field(default_factory=set)
    """Variables that hold the path of a file from which a table is filled."""
    placeholders: set[bytes] = field(default_factory=set)
    devices: set[bytes] = field(default_factory=set)


class UnfilledReads:
    """A search of one graph for what is read and never filled.

    `nodes` are those of the graph itself; `function` maps a name to its FunctionDef, or None.
    """

    def __init__(self, nodes: Sequence[Any], function: Callable[[str], Any | None]) -> None:
        self._nodes, self._function = nodes, function
        self._summaries: dict[str, _Uses] = {}

    def find_unfilled(
        self, message: Any, *, methods: Collection[str], init_op: str
    ) -> Iterator[Unfilled]:
        """Yield what is read and not filled, of each kind and signature with one of these methods.

        `message`: wire.MetaGraphDef, whose assets are tensors that the loader feeds with paths.
        """
        restore_op = message.saver_def.restore_op_name
        assets = [asset.tensor_info.name.encode() for asset in message.asset_file_def]
        restored = self._find_uses([restore_op.encode()] if restore_op else [], None)
        initialized = self._find_uses([init_op.encode()] if init_op else [], assets)
        filled = restored.writes | initialized.writes
        paths = initialized.paths - initialized.writes
        initialized.reads -= paths
        if paths:
            yield Unfilled(signature="", kind="path", names=_format_names(paths))
        yield from _find_unfilled("", initialized, filled)
        devices = {node.device for node in self._nodes if _OTHER_JOB.search(node.device)}
        for name, signature in sorted(message.signature_def.items()):
            if signature.method_name not in methods:
                continue
            fed = _list_tensors(signature.inputs.values())
            uses = self._find_uses(_list_tensors(signature.outputs.values()), fed)
            devices |= uses.devices
            yield from _find_unfilled(name, uses, filled)
        if devices:
            names = sorted({device.decode(errors="replace") for device in devices})
            yield Unfilled(signature="", kind="device", names=tuple(names))

    def _find_uses(self, starts: Sequence[bytes], fed: Iterable[bytes] | None) -> _Uses:
        """Return the uses of the graph's nodes; placeholders are ignored if `fed` is None."""
        body = _Body(self._nodes, {}, frozenset(map(_normalize, fed or ())))
        uses = self._collect_uses(body, starts)
        for start in starts:  # a variable by reference may be an output itself
            if isinstance(root := body.find_root(start), _Holder) and root.kind == "variable":
                uses.reads.add(root)
        if fed is None:
            uses.placeholders.clear()
        return uses

    def _summarize_function(self, name: str) -> _Uses | None:
        """Return the uses of a function, whose arguments are numbers; None for an unknown name."""
        if name not in self._summaries:
            function = self._function(name)
            if function is None:
                return None
            self._summaries[name] = _Uses()  # for a function that calls itself
            arguments = {
                argument.name.encode(): number
                for number, argument in enumerate(function.signature.input_arg)
            }
            body = _Body(function.node_def, arguments, frozenset())
            returned = [*function.ret.values(), *function.control_ret.values()]
            tensors = [tensor.encode() for tensor in returned]
            if not function.control_ret:  # TensorFlow 1 ran every operation with an effect
                tensors += [node.name for node in function.node_def if _WRITES.fullmatch(node.op)]
            self._summaries[name] = self._collect_uses(body, tensors)
        return self._summaries[name]

    def _collect_uses(self, body: "_Body", starts: Sequence[bytes]) -> _Uses:
        uses = _Uses()
        reads: dict[_Root, list[Any]] = defaultdict(list)
        writes: dict[_Root, set[bytes]] = defaultdict(set)
        for node in body.walk_needed_nodes(starts):
            if _OTHER_JOB.search(node.device):
                uses.devices.add(node.device)
            if node.op in PLACEHOLDERS:
                uses.placeholders.add(node.name)
            read, written = self._find_effects(body, node, uses)
            for root in read:
                reads[root].append(node)
            for root in written:
                writes[root].add(node.name)
        for root, nodes in reads.items():
            if not all(body.is_preceded(node, writes.get(root, set())) for node in nodes):
                uses.reads.add(root)
        uses.writes.update(writes)
        return uses

    def _find_effects(
        self, body: "_Body", node: Any, uses: _Uses
    ) -> tuple[Iterable[_Root], Iterable[_Root]]:
        """Return what a node reads and writes; add what else it uses to `uses`."""
        if node.op in HOLDERS or _PASSES.fullmatch(node.op) or _HARMLESS.fullmatch(node.op):
            return (), ()
        roots = [body.find_root(tensor) for tensor in node.input if not tensor.startswith(b"^")]
        called, skipped = self._find_called(node)
        read: set[_Root] = set()
        written: set[_Root] = set()
        for callee in called:
            arguments = roots[skipped:]
            read |= _bind_roots(callee.reads, arguments)
            written |= _bind_roots(callee.writes, arguments)
            uses.paths |= _bind_roots(callee.paths, arguments)
            uses.placeholders |= callee.placeholders
            uses.devices |= callee.devices
        if node.op in FILLS and len(roots) > 1:
            path = body.find_path_variable(node.input[1])
            uses.paths |= {path} if path is not None else set()
        if skipped >= 0:
            return read, written
        if _WRITES.fullmatch(node.op):
            at = 1 if node.op == b"MakeIterator" else 0  # its dataset is first
            written |= {root for root in roots[at : at + 1] if root is not None}
            del roots[at : at + 1]
        return read | {root for root in roots if root is not None}, written

    def _find_called(self, node: Any) -> tuple[list[_Uses], int]:
        """Return the uses of a node's functions, and how many inputs precede their arguments.

        The number is -1 if the node's inputs aren't the functions' arguments, as with a dataset.
        """
        if (own := self._summarize_function(node.op.decode())) is not None:
            return [own], 0  # a call, as TensorFlow 1 wrote it
        names: list[str] = []
        if node.op in _CALLS or any(b"R" in entry for entry in node.attr):  # the tag of `func`
            keys, skipped = _CALLS.get(node.op, ((), -1))
            for key, value in parse_attributes(node).items():
                if not keys or key in keys:
                    names += [value.func.name, *(each.name for each in value.list.func)]
            called = (self._summarize_function(name) for name in names if name)
            return [uses for uses in called if uses is not None], skipped
        return [], -1


class _Body(Nodes):
    """The nodes of the graph, or of a function.

    `fed` are the tensors that a request gives, as NAME:NUMBER.
    """

    def __init__(
        self, nodes: Sequence[Any], arguments: Mapping[bytes, int], fed: frozenset[bytes]
    ) -> None:
        super().__init__(nodes)
        self._arguments, self._fed = arguments, fed
        self._fed_nodes = frozenset(tensor.partition(b":")[0] for tensor in fed)
        self._before: dict[bytes, frozenset[bytes]] = {}

    def is_preceded(self, node: Any, names: set[bytes]) -> bool:
        """Return whether a node with one of these names runs before the node."""
        if not names:
            return False
        if node.name not in self._before:
            before = {each.name for each in self.walk_needed_nodes(node.input)}
            self._before[node.name] = frozenset(before - {node.name})
        return not names.isdisjoint(self._before[node.name])

    def find_root(self, tensor: bytes) -> _Root | None:
        """Return the argument or the holder that a tensor comes from."""
        seen: set[bytes] = set()
        while tensor not in seen:
            seen.add(tensor)
            name = tensor.lstrip(b"^").partition(b":")[0]
            if name in self._arguments:
                return self._arguments[name]
            node = self.find_node(name)
            if node is None or self.is_fed(tensor):
                return None
            if node.op in HOLDERS:
                return _build_resource_holder(node)
            if not _PASSES.fullmatch(node.op) or not node.input:
                return None
            number = int(tensor.rpartition(b":")[2]) if node.op == b"IdentityN" else 0
            tensor = node.input[number]
        return None

    def find_path_variable(self, tensor: bytes) -> _Root | None:
        """Return the variable that a string is read from, or None if it isn't read from one."""
        node = self.find_node(tensor)
        while node is not None and _PASSES.fullmatch(node.op) and node.op != b"Merge":
            tensor = node.input[0]
            node = self.find_node(tensor)
        if node is not None and node.op == b"ReadVariableOp":
            return self.find_root(node.input[0])
        is_variable = node is not None and HOLDERS.get(node.op) == "variable"
        return self.find_root(tensor) if is_variable else None

    def is_fed(self, tensor: bytes) -> bool:
        if tensor.startswith(b"^"):
            return tensor[1:] in self._fed_nodes
        return _normalize(tensor) in self._fed


def _bind_roots(roots: Iterable[_Root], arguments: Sequence[_Root | None]) -> set[_Root]:
    """Return the roots of a function as its caller sees them."""
    bound: set[_Root] = set()
    for root in roots:
        given: _Root | None = root if isinstance(root, _Holder) else None
        if isinstance(root, int) and root < len(arguments):
            given = arguments[root]
        if given is not None:
            bound.add(given)
    return bound


def _build_resource_holder(node: Any) -> _Holder:
    shared = parse_attributes(node).get("shared_name")
    name = shared.s if shared is not None else b""
    kind = HOLDERS[node.op]
    is_anonymous = name == _ANONYMOUS or node.op.startswith(b"Anonymous")
    shown = name if name and kind == "variable" and not is_anonymous else node.name
    return _Holder(kind, node.name if is_anonymous else name or node.name, shown, is_anonymous)


def _normalize(tensor: bytes) -> bytes:
    return tensor if b":" in tensor else tensor + b":0"


def _list_tensors(given: Iterable[Any]) -> list[bytes]:
    """Return the names of the tensors of a signature; a sparse one has three."""
    names: list[str] = []
    for tensor in given:
        sparse = tensor.coo_sparse
        names += (tensor.name, sparse.values_tensor_name, sparse.indices_tensor_name)
        names.append(sparse.dense_shape_tensor_name)
    return [name.encode() for name in names if name]


def _find_unfilled(signature: str, uses: _Uses, filled: set[_Root]) -> Iterator[Unfilled]:
    by_kind: dict[str, set[_Root]] = defaultdict(set)
    for root in uses.reads:
        if isinstance(root, _Holder) and (root.is_anonymous or root not in filled):
            by_kind[root.kind].add(root)
    for kind, roots in sorted(by_kind.items()):
        yield Unfilled(signature=signature, kind=kind, names=_format_names(roots))
    if uses.placeholders:
        names = sorted(name.decode(errors="replace") for name in uses.placeholders)
        yield Unfilled(signature=signature, kind="placeholder", names=tuple(names))


def _format_names(roots: Iterable[_Root]) -> tuple[str, ...]:
    names = {root.name.decode(errors="replace") for root in roots if isinstance(root, _Holder)}
    return tuple(sorted(names))


_FIXES: Mapping[str, tuple[str, str]] = {
    "variable": (
        "that nothing restores or initializes",
        "export a Keras model with model.export(FOLDER) instead of tf.saved_model.save; keep each "
        "variable as an attribute of the tf.Module; in TensorFlow 1, pass its initializer as main_op",
    ),
    "table": (
        "that nothing initializes",
        "export with main_op=tf.compat.v1.tables_initializer(), or with tf.saved_model.save of a "
        "tf.Module that holds the table",
    ),
    "iterator": ("that nothing initializes",
                 "export a graph whose inputs are placeholders instead of a tf.data iterator"),
    "queue": ("that nothing fills",
              "export a graph whose inputs are placeholders instead of an input queue"),
    "placeholder": (
        "that no input feeds",
        "add it to the inputs of the signature, or make it a tf.compat.v1.placeholder_with_default",
    ),
    "path": ("for the path of a table's file, which must be an asset",
             "export the file as an asset: tf.saved_model.Asset(PATH), or a constant path in "
             "tf.compat.v1.GraphKeys.ASSET_FILEPATHS"),
    "device": (
        "which the container does not have",
        "export again with clear_devices=True, or outside tf.device and the cluster's strategy",
    ),
}  # fmt: skip


def describe_unfilled(found: Unfilled) -> tuple[str, str]:
    """Return the problem and its fix, as sentences."""
    what, fix = _FIXES[found.kind]
    more = len(found.names) - _MOST_NAMES
    names = ", ".join(name[:100] for name in found.names[:_MOST_NAMES])
    names += f", and {more} more" if more > 0 else ""
    if found.kind == "device":
        return f"the graph needs the device {names}, {what}: loading or requests fail", fix
    kind = "variable" if found.kind == "path" else found.kind
    reader, effect = "initialization", "the model does not load"
    if found.signature:
        reader, effect = f"signature {found.signature!r}", "its requests fail"
    several = "s" if len(found.names) > 1 else ""
    return f"{reader} reads the {kind}{several} {names} {what}: {effect}", fix
