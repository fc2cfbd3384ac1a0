"""What a signature reads and nothing fills, in graphs of a few nodes.

tests/packaging/test_against_tensorflow.py compares the same verdicts with TensorFlow's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from model_packaging.saved_model import operations as reading
from model_packaging.saved_model.operations import read_operations
from model_packaging.saved_model.unfilled import Unfilled, describe_unfilled
from servable_tensors import wire
from tests.exports.exports import MODELS, NAMES, UNFILLED
from tests.preflight.graphs import field as written

Node = tuple[str, str, list[str]]
"""Name, operation, and inputs."""
VARIABLE: Node = ("v", "VarHandleOp", [])
READ = ("r", "ReadVariableOp", ["v"])
ASSIGN = ("assign", "AssignVariableOp", ["v", "c"])
X: Node = ("x", "Placeholder", [])
C: Node = ("c", "Const", [])
TABLE: list[Node] = [("t", "HashTableV2", []), ("y", "LookupTableFindV2", ["t", "x", "c"])]
FILL: Node = ("fill", "LookupTableImportV2", ["t", "c", "c"])


@dataclass
class Model:
    """A SavedModel with one signature, from x to y. A node may call a function: its operation."""

    nodes: list[Node]
    restore: str = ""
    main_op: str = ""
    legacy_init_op: str = ""
    init_signature: str = ""
    functions: Mapping[str, tuple[list[str], list[Node], str]] = field(default_factory=dict)
    """Name to arguments, nodes, and the tensor that is returned."""
    devices: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    """Node to its shared_name."""
    calls: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Node to its attributes that name functions."""

    def find(self, folder: Path) -> list[tuple[str, str, tuple[str, ...]]]:
        self.write(folder)
        unfilled = read_operations(folder).unfilled
        assert unfilled is not None
        return [(found.signature, found.kind, found.names) for found in unfilled]

    def write(self, folder: Path) -> None:
        library = b"".join(written(1, self._function(name)) for name in self.functions)
        graph = b"".join(written(1, self._node(node)) for node in self.nodes) + written(2, library)
        saver_def = {"restore_op_name": self.restore}
        meta = wire.MetaGraphDef(meta_info_def={"tags": ["serve"]}, saver_def=saver_def)
        signature = meta.signature_def["serving_default"]
        signature.method_name = "tensorflow/serving/predict"
        signature.inputs["x"].name, signature.outputs["y"].name = "x:0", "y:0"
        if self.init_signature:
            key = "__saved_model_init_op"
            meta.signature_def[key].outputs[key].name = self.init_signature
        body = meta.SerializeToString() + written(2, graph)
        for key, node in {
            "saved_model_main_op": self.main_op,
            "legacy_init_op": self.legacy_init_op,
        }.items():
            if node:
                nodes = written(1, written(1, node.encode()))
                body += written(4, written(1, key.encode()) + written(2, nodes))
        folder.mkdir(exist_ok=True)
        (folder / "saved_model.pb").write_bytes(b"\x08\x01" + written(2, body))

    def _function(self, name: str) -> bytes:
        arguments, nodes, returned = self.functions[name]
        signature = {"name": name, "input_arg": [{"name": each} for each in arguments]}
        function = wire.FunctionDef(signature=signature, ret={"result": returned})
        body = b"".join(written(3, self._node(node)) for node in nodes)
        return bytes(function.SerializeToString()) + body

    def _node(self, node: Node) -> bytes:
        name, op, inputs = node
        values = {"shared_name": wire.AttrValue(s=self.names.get(name, "").encode())}
        for key, function in self.calls.get(name, {}).items():
            values[key] = wire.AttrValue(func=wire.NameAttrList(name=function))
        entries = [wire.AttrEntry(key=key, value=value) for key, value in values.items()]
        message = wire.NodeDef(
            name=name.encode(), op=op.encode(), input=[each.encode() for each in inputs],
            device=self.devices.get(name, "").encode(),
            attr=[entry.SerializeToString() for entry in entries],
        )  # fmt: skip
        return bytes(message.SerializeToString())


def functions(returned: str, *nodes: Node) -> dict[str, tuple[list[str], list[Node], str]]:
    return {"f": (["a", "b"], list(nodes), returned)}


def added(reader: str) -> list[Node]:
    return [X, C, ("y", "AddV2", ["x", reader])]


BY_REFERENCE: list[Node] = [("v", "VariableV2", []), ("y", "AddV2", ["x", "v"]), X, C]
OTHER_TABLE: list[Node] = [("u", "HashTable", []), ("z", "LookupTableFind", ["u", "x", "c"])]
PATH: list[Node] = [VARIABLE, READ, ("p", "Identity", ["r"])]
FROM_FILE: Node = ("file", "InitializeTableFromTextFileV2", ["t", "p"])
ITERATOR: list[Node] = [("i", "IteratorV2", []), ("g", "IteratorGetNext", ["i"]), *added("g")]
QUEUE: list[Node] = [("q", "FIFOQueueV2", []), ("d", "QueueDequeueV2", ["q"]), *added("d")]
INNER = functions("m:z:0", ("l", "ReadVariableOp", ["b"]), ("m", "Mul", ["a", "l:value:0"]))
OWN = functions("l:value:0", ("w", "VarHandleOp", []), ("l", "ReadVariableOp", ["w:resource:0"]))
CALL: list[Node] = [X, VARIABLE, ("y", "StatefulPartitionedCall", ["x", "v"])]
TO_F = {"y": {"f": "f"}}

# What reads the variable v, which nothing fills.
READ_UNFILLED = {
    "variable": Model([VARIABLE, READ, *added("r")]),
    "variable by reference": Model(BY_REFERENCE),
    "gathered variable": Model([VARIABLE, ("r", "ResourceGather", ["v", "c"]), *added("r")]),
    "only added to": Model(
        [VARIABLE, ("add", "AssignAddVariableOp", ["v", "c"]), READ, *added("r")]
    ),
    "assigned after": Model(
        [VARIABLE, READ, ("assign", "AssignVariableOp", ["v", "c", "^r"]), *added("r")]
    ),
    "assigned by nothing that runs": Model(
        [VARIABLE, READ, ASSIGN, *added("r"), ("init", "NoOp", ["^c"])],
        main_op="init",
    ),
    "in a function": Model(CALL, functions=INNER, calls=TO_F),
    "in a branch": Model([X, VARIABLE, ("y", "If", ["x", "x", "v"])], functions=INNER,
                         calls={"y": {"then_branch": "f", "else_branch": "f"}}),
    "in a call of TensorFlow 1": Model([X, VARIABLE, ("y", "f", ["x", "v"])], functions=INNER),
}  # fmt: skip
SECOND = Model(
    [*TABLE[:1], *OTHER_TABLE, ("l", "LookupTableFindV2", ["t", "x"]), FILL, X, C]
    + [("y", "AddV2", ["l", "z"])],
    main_op="fill",
)
ANONYMOUS = Model([("t", "AnonymousHashTable", []), *TABLE[1:], FILL, X, C], main_op="fill")
NAMED = Model([VARIABLE, READ, *added("r")], names={"v": "dense/kernel"})
FED = Model([("keep_prob", "Placeholder", []), *added("keep_prob")])
FED_INSIDE = functions("k:output:0", ("k", "Placeholder", []))
FAULTS: dict[str, tuple[Model, str, str]] = {
    **{name: (model, "variable", "v") for name, model in READ_UNFILLED.items()},
    "named by shared_name": (NAMED, "variable", "dense/kernel"),
    "of a function's own": (Model(CALL, functions=OWN, calls=TO_F), "variable", "w"),
    "table": (Model([*TABLE, X, C]), "table", "t"),
    "second table": (SECOND, "table", "u"),
    "anonymous table": (ANONYMOUS, "table", "t"),
    "iterator": (Model(ITERATOR), "iterator", "i"),
    "queue": (Model(QUEUE), "queue", "q"),
    "placeholder": (FED, "placeholder", "keep_prob"),
    "of a function": (Model(CALL, functions=FED_INSIDE, calls=TO_F), "placeholder", "k"),
}
PATH_RESTORED = Model(
    [*TABLE, *PATH, FROM_FILE, ASSIGN, X, C, ("restore", "NoOp", ["^assign"])],
    main_op="file",
    restore="restore",
)
Y: Node = ("y", "Neg", ["x"])
FED_AT_LOADING = Model([X, Y, ("k", "Placeholder", []), ("i", "NoOp", ["k"])], main_op="i")
WORKER, SERVER = "/job:worker/task:0", "/job:ps/task:1"
NEGATE = functions("n:y:0", ("n", "Neg", ["a"]))
ON_SERVER = Model(CALL, functions=NEGATE, calls=TO_F, devices={"n": SERVER})
FAULTS_OF_LOADING: dict[str, tuple[Model, str, str]] = {
    "a path in a restored variable": (PATH_RESTORED, "path", "v"),
    "a placeholder of the initialization": (FED_AT_LOADING, "placeholder", "k"),
    "a device that no signature needs": (
        Model([*added("c"), ("z", "Neg", ["c"])], devices={"z": WORKER}),
        "device",
        WORKER,
    ),
    "a device of a function": (ON_SERVER, "device", SERVER),
}
FILLED = {
    "restored": Model([VARIABLE, READ, ASSIGN, *added("r"), ("restore", "NoOp", ["^assign"])],
                      restore="restore"),
    "restored by a function": Model(
        [VARIABLE, READ, *added("r"), ("restore", "PartitionedCall", ["c", "v"])],
        restore="restore",
        functions=functions("a", ("s", "AssignVariableOp", ["b", "a"])),
        calls={"restore": {"f": "f"}},
    ),
    "restored by a call of TensorFlow 1": Model(
        [VARIABLE, READ, *added("r"), ("restore", "f", ["c", "v"])], restore="restore",
        functions=functions("a", ("s", "AssignVariableOp", ["b", "a"])),
    ),
    "fed in the middle": Model(
        [("k", "Placeholder", []), ("x", "Neg", ["k"]), ("y", "Neg", ["x"])]
    ),
    "restored by reference": Model(
        [*BY_REFERENCE, ("restore", "Assign", ["v", "c"])], restore="restore",
    ),
    "of one shared_name": Model(
        [VARIABLE, READ, ("w", "VarHandleOp", []), ("i", "AssignVariableOp", ["w", "c"])]
        + added("r"),
        main_op="i", names={"v": "one", "w": "one"},
    ),
    "main_op": Model([*TABLE, FILL, X, C], main_op="fill"),
    "legacy_init_op": Model([*TABLE, FILL, X, C], legacy_init_op="fill"),
    "the signature of the initialization": Model([*TABLE, FILL, X, C], init_signature="fill:0"),
    "main_op before legacy_init_op": Model(
        [*TABLE, FILL, X, C], main_op="fill", legacy_init_op="c",
    ),
    "a mutable table": Model([("t", "MutableHashTableV2", []), *TABLE[1:], X, C]),
    "the number of a table's keys": Model(
        [*TABLE[:1], ("n", "LookupTableSizeV2", ["t"]), *added("n")],
    ),
    "an iterator": Model([*ITERATOR, ("make", "MakeIterator", ["c", "i"])], main_op="make"),
    "an iterator of its own data": Model(
        [("i", "OneShotIterator", []), ("g", "IteratorGetNext", ["i"]), *added("g")]
    ),
    "a queue that the signature fills": Model(
        [("q", "FIFOQueueV2", []), ("e", "QueueEnqueueV2", ["q", "x"])]
        + [("d", "QueueDequeueV2", ["q", "^e"]), *added("d")]
    ),
    "assigned before": Model(
        [VARIABLE, ASSIGN, ("r", "ReadVariableOp", ["v", "^assign"]), *added("r")]
    ),
    "asked whether it is filled": Model(
        [VARIABLE, ("r", "VarIsInitializedOp", ["v"]), *added("r")],
    ),
    "read where nothing needs it": Model([VARIABLE, READ, *added("c")]),
    "a placeholder with a default": Model([("k", "PlaceholderWithDefault", ["c"]), *added("k")]),
    "a placeholder that nothing needs": Model([("k", "Placeholder", []), *added("c")]),
    "a path that is assigned first": Model(
        [*TABLE, *PATH, ("file", "InitializeTableFromTextFileV2", ["t", "p", "^assign"])]
        + [ASSIGN, X, C],
        main_op="file",
    ),
    "unread in a function": Model(CALL, functions=functions("a"), calls=TO_F),
    "its own device": Model([*added("c")], devices={"y": "/job:localhost/task:0"}),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_what_a_signature_reads_and_nothing_fills_is_named(tmp_path: Path, name: str) -> None:
    model, kind, unfilled = FAULTS[name]
    assert model.find(tmp_path) == [("serving_default", kind, (unfilled,))]


@pytest.mark.parametrize("name", FAULTS_OF_LOADING)
def test_what_keeps_a_model_from_loading_is_named(tmp_path: Path, name: str) -> None:
    model, kind, unfilled = FAULTS_OF_LOADING[name]
    found = [(kind, names) for signature, kind, names in model.find(tmp_path) if not signature]
    assert found == [(kind, (unfilled,))]


@pytest.mark.parametrize("name", FILLED)
def test_what_is_filled_is_no_finding(tmp_path: Path, name: str) -> None:
    assert FILLED[name].find(tmp_path) == []


@pytest.mark.parametrize("name", NAMES)
def test_no_export_is_accused_but_the_one_that_fails(name: str) -> None:
    found: Any = read_operations(MODELS / name / "1").unfilled
    assert [one.kind for one in found] == (["variable"] if name == UNFILLED else [])


def test_a_graph_of_too_many_nodes_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, _, _ = FAULTS["table"]
    model.write(tmp_path)
    monkeypatch.setattr(reading, "_MOST_FOLLOWED_BYTES", 1)
    assert read_operations(tmp_path).unfilled is None


def test_the_sentence_names_some_and_counts_the_rest() -> None:
    names = ("a", "b", "c", "d", "e")
    problem, fix = describe_unfilled(Unfilled(signature="s", kind="variable", names=names))
    read = "signature 's' reads the variables a, b, c, and 2 more"
    assert problem == f"{read} that nothing restores or initializes: its requests fail"
    assert fix.startswith("export a Keras model with model.export(FOLDER) instead of")
    problem, _ = describe_unfilled(Unfilled(signature="", kind="device", names=("/job:worker",)))
    needed = "the graph needs the device /job:worker, which the container does not have"
    assert problem == f"{needed}: loading or requests fail"
