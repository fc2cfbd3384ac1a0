"""Bodies through the handler, with the model servers' side cut off, held against the references.

A body that is sent on must mean what its reference reads; a body that is not is 4xx.
"""

import contextlib
import io
import json
import random
from collections import Counter
from typing import Any, Self
from unittest import mock

import numpy as np

from servable_handler.handler import Handler
from servable_handler.hooks import Hooks
from servable_handler.request import Call, RequestError
from servable_handler.settings import Settings
from servable_handler.transport.model_servers import ModelServers
from servable_tensors import wire
from servable_tensors.codecs import CSV, JSON, JSON_LINES, NPY, NPZ, PROTOBUF
from servable_tensors.tensors import to_proto
from servable_tensors.text_bodies import add_signature
from tests.fuzz import body_reference as reference
from tests.fuzz.body_generator import Body
from tests.servable_handler.conftest import answer_of
from tests.servable_handler.fake_model_server import SIGNATURES, build_context, metadata

REFUSALS = {400, 413, 415}
_ACCEPTED = ["*/*", JSON, CSV, JSON_LINES, NPY, NPZ, PROTOBUF]
_PORTS = {"TFS_GRPC_PORTS": "9000", "TFS_REST_PORTS": "8501"}


class Checked:
    """`counts`: bodies by what became of them; `wrong`: a sentence for each that should not be."""

    def __init__(self, seed: int, *, by_tensorflow: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._drawn = random.Random(seed)
        self._by_tensorflow = by_tensorflow
        self._handlers = {
            transport: Handler(Settings(transport=transport), Hooks(), _PORTS)
            for transport in ("auto", "grpc", "rest")
        }
        self._answers = [_reply(np.arange(3, dtype="f4")), _reply(np.array([b"a"]))]
        self._metadata: bytes = metadata().SerializeToString()
        self._sent: list[tuple[str, bytes]] = []
        self._last = "", "", 0
        self._refuses, self._text_answer = False, b""

    def __enter__(self) -> Self:
        self._patches = contextlib.ExitStack()
        for name, call in (("call_grpc", self._grpc), ("call_rest", self._rest)):
            self._patches.enter_context(mock.patch.object(ModelServers, name, call))
        return self

    def __exit__(self, *failure: object) -> None:
        self._patches.close()

    def check(self, body: Body) -> None:
        self.answer(body)
        self.compare(body)

    def answer(self, body: Body) -> None:
        """Through the handler, by one of its ways; `compare` then looks at what became of it."""
        transport = self._drawn.choice(["auto", "auto", "grpc", "rest"])
        accept = self._drawn.choice(_ACCEPTED)
        status = self.status(body, transport, accept, refuses=self._drawn.random() < 0.2)
        self._last = transport, accept, status

    def compare(self, body: Body) -> None:
        transport, accept, status = self._last
        kind = f"{body.content_type} {'sent on' if self._sent else 'refused'} {status}"
        self.counts[kind] += 1
        problem = self._problem(body, status)
        if problem is not None and len(self.wrong) < 20:
            self.wrong.append(f"{problem}: {transport} {accept} {body}")

    def status(
        self, body: Body, transport: str, accept: str = "*/*", *, refuses: bool = False
    ) -> int:
        """HTTP status of the handler's answer; `refuses`: the model servers refuse what they are sent."""
        self._sent.clear()
        self._refuses, self._text_answer = refuses, _text_answer(_signature(body, accept))
        context = build_context(
            8501,
            9000,
            custom_attributes=f"tfs-signature-name={body.signature}" if body.signature else None,
            request_content_type=body.content_type,
            accept_header=accept,
            content_length=len(body.bytes),
        )
        return answer_of(self._handlers[transport], body.bytes, context)[0]

    def _grpc(self, method: str, body: bytes, call: Call) -> bytes:
        if method == "GetModelMetadata":
            return self._metadata
        self._sent.append(("grpc", body))
        if self._refuses:
            raise RequestError(400, "the model server refuses it")
        return self._answers[len(body) % 2]

    def _rest(self, path: str, body: bytes, call: Call) -> tuple[int, bytes]:
        self._sent.append(("rest", body))
        if self._refuses:
            return 400, b'{"error": "the model server refuses it"}'
        return 200, self._text_answer

    def _problem(self, body: Body, status: int) -> str | None:
        if not self._sent:
            return None if status in REFUSALS else f"{status} and nothing was sent on"
        if status >= 500:
            return f"{status}"
        ((port, sent),) = self._sent
        text = body.content_type not in (NPY, NPZ, PROTOBUF)
        try:
            if port == "rest" and text:
                relayed = reference.converted(body.content_type, body.bytes, self._last[1])
                if sent == (add_signature(relayed, body.signature) if body.signature else relayed):
                    return None  # it is the model server's to read
            wanted = self._wanted(body)
            if port == "rest":
                found = reference.of_text(sent, self._inputs(body))
            else:
                by_tensorflow = self._by_tensorflow and body.content_type == PROTOBUF
                found = reference.of_protobuf(sent, by_tensorflow=by_tensorflow)
        except Exception as error:
            return f"sent on, and no reference reads it ({type(error).__name__}: {error!s:.200})"
        if port == "rest" and not text:
            wanted, found = _as_text(wanted), _as_text(found)
        if body.content_type == PROTOBUF and found != wanted:
            # Read one by one through Python's floats, NaNs are all quiet ones.
            wanted, found = _quiet(wanted), _quiet(found)
        return None if found == wanted else f"sent on as {found}, and is {wanted}"

    def _wanted(self, body: Body) -> dict[str, reference.Tensor]:
        inputs = self._inputs(body)
        if body.content_type == NPY:
            ((name, number),) = inputs.items()
            array = np.load(io.BytesIO(body.bytes), allow_pickle=False)
            return {name: reference.of_array(array, number)}
        if body.content_type == NPZ:
            return reference.of_npz(body.bytes, inputs)
        if body.content_type == PROTOBUF:
            return reference.of_protobuf(body.bytes)
        converted = reference.converted(body.content_type, body.bytes, self._last[1])
        return reference.of_text(converted, inputs)

    def _inputs(self, body: Body) -> dict[str, int]:
        """{input: data type} of the signature that is asked."""
        inputs = SIGNATURES[_signature(body, self._last[1]) or "serving_default"]
        return {name: number for name, (number, _) in inputs.items()}


def _signature(body: Body, accept: str) -> str:
    """The signature that JSON names, as a model server calls it, or else the attributes'."""
    parsed = None
    if body.content_type not in (CSV, NPY, NPZ, PROTOBUF):
        with contextlib.suppress(ValueError, RecursionError):
            parsed = json.loads(reference.converted(body.content_type, body.bytes, accept))
    named = parsed.get("signature_name") if isinstance(parsed, dict) else None
    return named if isinstance(named, str) and named in SIGNATURES else body.signature


def _as_text(tensors: dict[str, reference.Tensor]) -> dict[str, Any]:
    """JSON knows one NaN, and an array without elements has not all of its dimensions."""
    found = {}
    for name, (dtype, shape, bits) in tensors.items():
        kind = reference.TYPES[dtype]
        if kind in ("float16", "float32", "float64", "bfloat16"):
            floats = np.frombuffer(bits, "<u2" if kind == "bfloat16" else kind)
            if kind == "bfloat16":
                floats = (floats.astype("<u4") << 16).view("<f4")
            bits = ["NaN" if one != one else one for one in floats.tolist()]
        # By its plain name: a quantized type holds the integers that it looks like.
        found[name] = (kind, shape[: shape.index(0) + 1] if 0 in shape else shape, bits)
    return found


def _quiet(tensors: dict[str, reference.Tensor]) -> dict[str, Any]:
    floats = {"float32": "f4", "float64": "f8", "complex64": "f4", "complex128": "f8"}
    quiet = {}
    for name, (dtype, shape, bits) in tensors.items():
        if kind := floats.get(reference.TYPES[dtype]):
            numbers = np.frombuffer(bits, kind)
            bits = np.where(np.isnan(numbers), 0, numbers).tobytes()
        quiet[name] = (dtype, shape, bits)
    return quiet


def _text_answer(signature: str) -> bytes:
    values = {"string": "a", "bool": True}
    outputs = {
        name: values.get(reference.TYPES[number], 1)
        for name, (number, _) in SIGNATURES[signature or "serving_default"].items()
    }
    return json.dumps({"outputs": outputs if len(outputs) > 1 else [*outputs.values()]}).encode()


def _reply(array: Any) -> bytes:
    response = wire.PredictResponse()
    response.outputs["y"].CopyFrom(to_proto(array))
    return bytes(response.SerializeToString())
