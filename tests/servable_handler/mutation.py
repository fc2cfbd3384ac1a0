"""Bodies of every content type, and the ways in which they are damaged."""

import random
from collections.abc import Iterator

import numpy as np

from servable_tensors import wire
from tests.servable_handler.conftest import npy, npz, predict_request

X = np.arange(12, dtype=np.float32).reshape(4, 3)


def one_by_one() -> bytes:
    request = wire.PredictRequest()
    tensor = request.inputs["x"]
    tensor.dtype = 1
    tensor.tensor_shape.dim.add(size=1)
    tensor.tensor_shape.dim.add(size=3)
    tensor.float_val.extend([1, 2, 3])
    return bytes(request.SerializeToString())


SEEDS = {
    "application/json": [b'{"instances": [[1, 2, 3], [4.5, 5, 6]]}',
                         b'{"inputs": {"x": [[1, 2, 3]]}, "signature_name": "serving_default"}',
                         b'{"instances": [{"x": [1, 2, 3]}, {"x": [4, 5, 6e5]}]}',
                         b"[[1, 2, 3], [4, 5, 6]]",
                         b'{"inputs": {"feat_ids": [[1, 2]], "feat_vals": [[0.5, 1.5]]}}'],
    "application/jsonlines": [b"[1, 2, 3]\n[4, 5, 6]\n", b'{"x": [1, 2, 3]}\n{"x": [4, 5, 6]}'],
    "text/csv": [b"1,2,3\n4,5,6\n", b"1.5e3,-2,+3\r\n4,5,6", b'a,b\n"c",d\n'],
    "application/x-npy": [npy(X), npy(X.astype("f8")), npy(np.array(["a", "bc"])), npy(X.T)],
    "application/x-npz": [npz(x=X), npz(feat_ids=X.astype("i8"), feat_vals=X), npz(x=X[0])],
    "application/x-protobuf": [predict_request(x=X), one_by_one(),
                               predict_request(x=np.array(["a", "bc"])),
                               predict_request(feat_ids=X.astype("i8"), feat_vals=X)],
}  # fmt: skip
ACCEPTED = ["application/json", "*/*", "text/csv", "application/x-npy", "application/x-npz",
            "application/x-protobuf", "application/jsonlines", "nonsense;q=x"]  # fmt: skip
_PIECES = [
    b"\xff" * 9, b"\0" * 4, b"9" * 400, b"1e999", b"NaN", b"{", b"[" * 40, b"]", b'"', b",", b"\n",
    b"\x80", b"\xff\xff\xff\x7f", b"null", b"true", b'{"b64":"AA=="}', b"\xed\xa0\x80", b"-",
]  # fmt: skip


def damaged(content_type: str, seed: int) -> Iterator[tuple[bytes, str]]:
    """Bodies without end, each with an Accept header; the same for the same seed."""
    drawn = random.Random(f"{content_type} {seed}")
    seeds = SEEDS[content_type]
    every = [body for bodies in SEEDS.values() for body in bodies]
    while True:
        body = bytearray(drawn.choice(seeds))
        for _ in range(drawn.randint(0, 5)):
            damage(body, drawn, every)
        yield bytes(body), drawn.choice(ACCEPTED)


def damage(body: bytearray, drawn: random.Random, every: list[bytes]) -> None:
    at, end = sorted((drawn.randint(0, len(body)), drawn.randint(0, len(body))))
    kind = drawn.randrange(8)
    if kind == 0 and body:
        body[at % len(body)] ^= 1 << drawn.randrange(8)
    elif kind == 1 and body:
        body[at % len(body)] = drawn.randrange(256)
    elif kind == 2:
        body[at:at] = drawn.choice(_PIECES)
    elif kind == 3:
        del body[at:end]
    elif kind == 4:
        body[at:at] = body[at:end]
    elif kind == 5:
        del body[at:]
    elif kind == 6:
        other = drawn.choice(every)
        body[at:end] = other[: drawn.randint(0, len(other))]
    else:
        body[at:end] = drawn.randbytes(min(end - at, 8))
