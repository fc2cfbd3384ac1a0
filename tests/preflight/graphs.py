"""Small SavedModels, node by node, without TensorFlow."""

from pathlib import Path
from typing import Any

from servable_tensors import wire
from servable_tensors.wire import encode_varint

PRODUCER = 2000
SERVED, CALLED, UNUSED = "__inference_serve", "__inference_called", "__inference_unused"


def field(number: int, body: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + encode_varint(len(body)) + body


class Graph:
    """A graph that calls two functions of three; `write` puts it into a version folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.producer, self.min_consumer = PRODUCER, 0
        self.bad_consumers: list[int] = []
        self._nodes: dict[str, list[bytes]] = {"": [], SERVED: [], CALLED: [], UNUSED: []}
        self._compiled: set[str] = set()
        for name in (SERVED, CALLED):
            call = {"f": wire.AttrValue(func=wire.NameAttrList(name=name)), "Tin": [], "Tout": []}
            self._add("", "StatefulPartitionedCall", f"call{name}", call)

    def main(self, op: str, **attributes: Any) -> None:
        self._add("", op, "planted", attributes)

    def served(self, op: str, types: tuple[str, ...] = (), **attributes: Any) -> None:
        self._add(SERVED, op, "planted", attributes, types=types)

    def called(self, op: str, *, compiled: bool = False, **attributes: Any) -> None:
        self._add(CALLED, op, "planted", attributes)
        if compiled:
            self._compiled.add(CALLED)

    def unused(self, op: str, **attributes: Any) -> None:
        self._add(UNUSED, op, "planted", attributes)

    def served_file(self, op: str, path: bytes) -> None:
        value = wire.TensorProto(dtype=7, string_val=[path]).SerializeToString()
        constant = {"dtype": wire.AttrValue(type=7), "value": wire.AttrValue(tensor=value)}
        self._add(SERVED, "Const", "path", constant)
        self._add(SERVED, op, "planted", {}, inputs=("path:output:0",))

    def write(self) -> None:
        versions = wire.VersionDef(
            producer=self.producer, min_consumer=self.min_consumer, bad_consumers=self.bad_consumers
        )
        main = b"".join(field(1, one) for one in self._nodes[""])
        library = b"".join(
            field(1, field(1, field(1, name.encode())) + self._function(name))
            for name in (SERVED, CALLED, UNUSED)
        )
        body = main + field(2, library) + field(4, versions.SerializeToString())
        signature = wire.SignatureDef(method_name="tensorflow/serving/predict")
        signature.outputs["y"].name = "call:0"
        meta = wire.MetaGraphDef(
            meta_info_def={"tags": ["serve"]}, signature_def={"serving_default": signature}
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        whole = b"\x08\x01" + field(2, meta.SerializeToString() + field(2, body))
        (self.folder / "saved_model.pb").write_bytes(whole)

    def _function(self, name: str) -> bytes:
        nodes = b"".join(field(3, one) for one in self._nodes[name])
        compiled = wire.AttrEntry(key="_XlaMustCompile", value=wire.AttrValue(b=True))
        return nodes + (field(5, compiled.SerializeToString()) if name in self._compiled else b"")

    def _add(
        self,
        function: str,
        op: str,
        node: str,
        attributes: dict[str, Any],
        *,
        types: tuple[str, ...] = (),
        inputs: tuple[str, ...] = (),
    ) -> None:
        entries = [
            wire.AttrEntry(key=name, value=_value(value, is_type=name in (*types, "Tin", "Tout")))
            for name, value in attributes.items()
        ]
        self._nodes[function].append(
            wire.NodeDef(
                name=node.encode(),
                op=op.encode(),
                input=[one.encode() for one in inputs],
                attr=[entry.SerializeToString() for entry in entries],
            ).SerializeToString()
        )


def _value(value: Any, *, is_type: bool) -> Any:
    if isinstance(value, wire.AttrValue):
        return value
    if isinstance(value, list):
        # TensorFlow writes an empty list as a list too.
        kinds = {"type": value} if is_type else {"i": value}
        return wire.AttrValue(list=wire.AttrValue.ListValue(**kinds))
    if isinstance(value, bool):
        return wire.AttrValue(b=value)
    if isinstance(value, bytes):
        return wire.AttrValue(s=value)
    return wire.AttrValue(type=value) if is_type else wire.AttrValue(i=value)
