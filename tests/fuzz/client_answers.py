"""Answers of every format, plain and damaged, from a seed; and whether ours reads them rightly."""

import io
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from servable_client.errors import BadAnswerError
from servable_client.formats import decode, find_content_type, load_codecs
from tests.fuzz import client_reference as reference
from tests.fuzz.client_reference import QUANTIZED, TYPES, Response, UnreadableError

# At most 1 s on a quiet machine for 1 MB; here other tests run beside.
MOST_CPU_SECONDS = 5.0
NAMES = ["y", "output", "prob", "ünïcode", "a/b", "x" * 70, ""]
NPY_TYPES = [
    "?",
    "i1",
    "<i4",
    ">i8",
    "u8",
    "f2",
    "<f4",
    ">f8",
    "c8",
    "c16",
    "S3",
    "U2",
    ">U2",
    "V2",
]


class WrongAnswerError(AssertionError):
    """The client read what the reference reads otherwise, was slow, or raised another error."""


def check(seed: int) -> str:
    """One answer: what became of it, "read", "refused" or both are for. Raises `WrongAnswerError`."""
    rng = random.Random(seed)
    form = rng.choice([*load_codecs()])
    body = _GENERATORS[form](rng)
    damaged = rng.random() < 0.75
    if damaged:
        body = _damaged(rng, form, body)
    return check_body(form, body, plain=not damaged, seed=seed)


def check_body(form: str, body: bytes, *, plain: bool = False, seed: int | None = None) -> str:
    """`plain`: the client must read it."""
    # Twice: an answer of a form that was read before is read by what is known of it.
    outcomes = [
        _outcome(lambda: decode(find_content_type(form), body), form, body, plain, seed)
        for _ in range(2)
    ]
    if outcomes[0] != outcomes[1]:
        raise WrongAnswerError(
            f"seed {seed}, {form}, {body[:200]!r}: {' and then '.join(outcomes)}"
        )
    return f"{form} {outcomes[-1]}"


def _outcome(ours: Callable[[], Any], form: str, body: bytes, plain: bool, seed: int | None) -> str:
    where = f"seed {seed}, {form}, {body[:200]!r}"
    began = time.process_time()
    try:
        found = ours()
    except BadAnswerError as error:
        if plain:
            raise WrongAnswerError(f"{where}: refused: {error}") from None
        return "refused"
    except Exception as error:
        raise WrongAnswerError(f"{where}: {type(error).__name__}: {error}") from error
    finally:
        seconds = time.process_time() - began
        if seconds > MOST_CPU_SECONDS:
            raise WrongAnswerError(f"{where}: {seconds:.1f} s of CPU")
    try:
        wanted = reference.read(form, body)
    except UnreadableError as error:
        raise WrongAnswerError(f"{where}: read {found}; the reference does not: {error}") from None
    if found.keys() != wanted.keys():
        raise WrongAnswerError(f"{where}: {list(found)}, wanted {list(wanted)}")
    for name, array in found.items():
        same = _same_json(array, wanted[name]) if form == "json" else _same(array, wanted[name])
        if not same:
            raise WrongAnswerError(f"{where}: {name}: {array!r}, wanted {wanted[name]!r}")
    return "read"


def _same(found: Any, wanted: Any) -> bool:
    if wanted.dtype == ml_dtypes.bfloat16:
        wanted = wanted.astype(np.float32)  # exact; the client's arrays have no bfloat16
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    if found.dtype == object:
        return bool((found == wanted).all())
    return _values(found) == _values(wanted)


def _values(array: Any) -> bytes:
    """Its bytes, with one byte for true and one NaN: ours makes 1 of any byte but 0, where NumPy keeps
    it, and the reference's Python floats make quiet NaNs of signalling ones."""
    if array.dtype.kind == "b":
        return bytes(np.where(array, 1, 0).astype(np.uint8).tobytes())
    if array.dtype.kind not in "fc":
        return bytes(array.tobytes())
    parts = np.ascontiguousarray(array).reshape(-1).view(array.real.dtype)
    return bytes(np.where(np.isnan(parts), np.nan, parts).astype(parts.dtype).tobytes())


def _same_json(found: Any, wanted: Any) -> bool:
    def equal(a: Any, b: Any) -> bool:
        if isinstance(b, list):
            return (
                isinstance(a, list)
                and len(a) == len(b)
                and all(equal(one, other) for one, other in zip(a, b, strict=True))
            )
        if isinstance(a, bool) != isinstance(b, bool) or isinstance(a, bytes) != isinstance(
            b, bytes
        ):
            return False
        return bool(a == b) or (a != a and b != b)

    return equal(found.tolist(), wanted)


def _array(rng: random.Random, dtype: str) -> Any:
    shape = [rng.randrange(5) for _ in range(rng.randrange(4))]
    count = int(np.prod(shape))
    made = np.dtype(dtype)
    if made.kind in "SU":
        texts = ["".join(rng.choice("aé☃b") for _ in range(rng.randrange(3))) for _ in range(count)]
        plain = [text.encode()[:3] for text in texts] if made.kind == "S" else texts
        return np.array(plain, made).reshape(shape)
    if made.kind == "b":
        return np.array([rng.random() < 0.5 for _ in range(count)], bool).reshape(shape)
    return np.frombuffer(rng.randbytes(count * made.itemsize), made).reshape(shape)


def _npy(rng: random.Random) -> bytes:
    array = _array(rng, rng.choice(NPY_TYPES))
    file = io.BytesIO()
    if array.ndim > 1 and rng.random() < 0.3:
        array = np.asfortranarray(array)
    np.lib.format.write_array(file, array, rng.choice([None, (1, 0), (2, 0), (3, 0)]))
    return file.getvalue()


def _npz(rng: random.Random) -> bytes:
    names = rng.sample([name for name in NAMES if name], rng.randrange(1, 4))
    file = io.BytesIO()
    save = np.savez if rng.random() < 0.7 else np.savez_compressed
    save(file, **{name: _array(rng, rng.choice(NPY_TYPES)) for name in names})
    return file.getvalue()


def _json(rng: random.Random) -> bytes:
    outputs = {rng.choice(NAMES): _json_values(rng) for _ in range(rng.randrange(1, 4))}
    kind = rng.randrange(4)
    if kind == 0:
        return json.dumps({"outputs": next(iter(outputs.values()))}).encode()
    if kind == 1:
        rows = [{"a": rng.random(), "b": [rng.randrange(9), 2]} for _ in range(rng.randrange(1, 4))]
        return json.dumps({"predictions": rows}).encode()
    return json.dumps({"outputs": outputs}, ensure_ascii=rng.random() < 0.5).encode()


def _json_values(rng: random.Random) -> Any:
    shape = [rng.randrange(1, 4) for _ in range(rng.randrange(3))]
    kind = rng.randrange(5)

    def leaf() -> Any:
        if kind == 0:
            return rng.choice([rng.uniform(-1, 1), rng.uniform(-1, 1) * 10.0 ** rng.randrange(300)])
        if kind == 1:
            return rng.randrange(-(2**63), 2**63) >> rng.randrange(64)
        if kind == 2:
            return rng.random() < 0.5
        if kind == 3:
            return rng.randrange(2**64) >> rng.randrange(3)
        return rng.choice(["a", "é☃", "", {"b64": "YQ=="}, {"b64": ""}])

    def level(sizes: list[int]) -> Any:
        return [level(sizes[1:]) for _ in range(sizes[0])] if sizes else leaf()

    return level(shape)


def _protobuf(rng: random.Random) -> bytes:
    response = Response()
    for name in rng.sample(NAMES, rng.randrange(1, 4)):
        number = rng.choice([*TYPES, *QUANTIZED] if rng.random() < 0.2 else [*TYPES])
        kind, field = (TYPES | QUANTIZED)[number]
        tensor = response.outputs[name]
        tensor.dtype = number
        array = _array(rng, {"O": "S3", "bfloat16": "u2"}.get(kind, kind))
        for size in array.shape:
            tensor.tensor_shape.dim.add(size=size)
        if kind != "O" and rng.random() < 0.5:
            tensor.tensor_content = array.tobytes()
            continue
        values = array.ravel()
        if field == "half_val":
            values = values.view("u2")
        elif kind.startswith("c"):
            values = values.view("f4" if kind == "c8" else "f8")
        values = values.tolist()
        if len(values) > 2 and not kind.startswith("c") and rng.random() < 0.2:
            values = values[: rng.randrange(len(values))]
        getattr(tensor, field).extend(values)
    if rng.random() < 0.5:
        response.model_spec.name = "m"
        response.model_spec.version.value = rng.randrange(1 << 40)
    return bytes(response.SerializeToString())


_GENERATORS: dict[str, Callable[[random.Random], bytes]] = {
    "protobuf": _protobuf,
    "npy": _npy,
    "npz": _npz,
    "json": _json,
}


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


# What a parser may stumble over, put anywhere into a body.
_PIECES: dict[str, list[bytes]] = {
    "protobuf": [
        *(_varint(field << 3 | kind) for field in (1, 2, 4, 5, 7, 8, 10, 13) for kind in range(6)),
        *(_varint((1 << 35) + (field << 3) + 2) for field in (1, 2, 4, 5)),
        *(_varint(1 << power) for power in (31, 32, 33, 62, 63, 64, 70)),
        b"\x80" * 9 + b"\x01",
        b"\x8a\x80\x80\x00",
        b"\x0a\x00",
        b"\x12\x00",
        b"\x2a\x04\x00\x00\x80\x3f",
        b"\x2d\x00\x00\x80\x3f",
        b"\x0b\x0c",
    ],
    "json": [
        *(
            piece.encode()
            for piece in ("1e400", "-1e999", "NaN", "Infinity", "null", "true", '"\\ud800"')
        ),
        *(
            piece.encode()
            for piece in ("9007199254740993", "18446744073709551616", "[", "]", "{}", "0.5")
        ),
        *(
            piece.encode()
            for piece in (",", ":", '"y":1,', '{"b64":"YQ=="}', '{"b64":1}', "-0", "1" * 320)
        ),
        b"\xff",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
    ],
    "npy": [
        b"'O'",
        b"'|S0'",
        b"'<V7'",
        b"(-1,-1)",
        b"True",
        b"(2,)",
        b"'<f4'",
        b"\x02\x00",
        b"'<M8[s]'",
    ],
    "npz": [b"PK\x01\x02", b"PK\x03\x04", b"PK\x05\x06", b"\xff\xff\xff\xff", b".npy", b"\x08\x00"],
}


def _damaged(rng: random.Random, form: str, body: bytes) -> bytes:
    made = bytearray(body)
    for _ in range(rng.randrange(1, 4)):
        # Near the beginning, where heads are, more often than in the values.
        last = min(len(made), rng.choice([40, 200, len(made)]))
        at = rng.randrange(last + 1)
        kind = rng.randrange(7)
        if kind == 0 and at < len(made):
            made[at] = rng.randrange(256)
        elif kind == 1 and at < len(made):
            made[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            made[at:at] = rng.choice(_PIECES[form])
        elif kind == 3:
            piece = rng.choice(_PIECES[form])
            made[at : at + len(piece)] = piece
        elif kind == 4:
            del made[at : at + rng.randrange(1, 9)]
        elif kind == 5:
            made[at:at] = made[at : at + rng.randrange(1, 60)]
        else:
            other = _GENERATORS[form](rng)
            made[at:] = other[rng.randrange(len(other) + 1) :]
    return bytes(made)


def run(first: int, count: int, seconds: float) -> tuple[Counter[str], list[str]]:
    """`count` answers, or as many as `seconds` suffice for: what became of them, and the faults."""
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    until = time.monotonic() + seconds
    for seed in range(first, first + count):
        if time.monotonic() > until:
            break
        try:
            outcomes[check(seed)] += 1
        except WrongAnswerError as fault:
            outcomes["wrong"] += 1
            faults.append(str(fault))
    return outcomes, faults


if __name__ == "__main__":
    import argparse

    parser = argparse.ArgumentParser(
        description="Decode damaged answers with the client and with the formats' own libraries.",
        prog="python -m tests.fuzz.client_answers",
    )
    parser.add_argument("--answers", type=int, default=50_000, help="How many (default: 50000).")
    parser.add_argument("--seed", type=int, default=0, help="The first seed (default: 0).")
    given = parser.parse_args()
    began = time.monotonic()
    counts, wrong = run(given.seed, given.answers, seconds=3600)
    for outcome, number in sorted(counts.items()):
        print(f"{number:8,} {outcome}")
    print(f"{sum(counts.values()):8,} answers in {time.monotonic() - began:.0f} s")
    for line in wrong[:20]:
        print(line)
    raise SystemExit(1 if wrong else 0)
