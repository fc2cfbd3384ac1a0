"""Bodies of every content type: built by structure with what parsers differ over, then damaged."""

import io
import json
import random
import struct
import warnings
import zipfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from servable_tensors import wire
from tests.servable_handler.mutation import SEEDS, damage

DTYPES = {wire.find_dtype_name(number): number for number in range(1, 24) if number not in (20, 21)}
CONTENT_TYPES = tuple(SEEDS)
SIGNATURES = ("", "two", *(f"echo_{name}" for name in DTYPES))


class Body(NamedTuple):
    content_type: str
    signature: str
    bytes: bytes


def bodies(content_type: str, seed: int) -> Iterator[Body]:
    """Without end; the same for the same seed."""
    drawn = random.Random(f"{content_type} {seed}")
    made = {
        "application/x-npy": _npy,
        "application/x-npz": _npz,
        "application/x-protobuf": _protobuf,
    }
    every = [body for several in SEEDS.values() for body in several]
    while True:
        signature = drawn.choice(SIGNATURES) if drawn.random() < 0.7 else ""
        dtype = signature.removeprefix("echo_") if signature.startswith("echo_") else "float32"
        if drawn.random() < 0.1:
            body = drawn.choice(SEEDS[content_type])
        else:
            body = made.get(content_type, _text)(drawn, content_type, signature, dtype)
        if drawn.random() < 0.4:
            damaged = bytearray(body)
            for _ in range(drawn.randint(1, 3)):
                damage(damaged, drawn, every)
            body = bytes(damaged)
        yield Body(content_type, signature, body)


# --- text

_NUMBERS = [
    "0", "1", "-0", "7", "300", "-129", "1.5", "0.1", "-2.25", "1E5", "1e-7", "16777217", "2147483648",
    "1e39", "9007199254740993", "18446744073709551615", "18446744073709551616", "1e400", "-1e400", "1e-400",
    "NaN", "Infinity", "-Infinity", "true", "false", "null", "01", "0x1F", "1_000", "+1", ".5", "5.",
    "\u0661", "1e", "70000", "9" * 310, "9" * 4400, '"a"', '"\\ud800"', '"\\u0000"', '""', '"\u00e4:"',
    '{"b64": "AAE="}', '{"b64": "!"}',
]  # fmt: skip


def _text(drawn: random.Random, content_type: str, signature: str, dtype: str) -> bytes:
    if content_type == "text/csv":
        columns, count = drawn.randint(1, 3), drawn.randint(1, 3)
        lines = [",".join(_leaf(drawn, dtype) for _ in range(columns)) for _ in range(count)]
        return drawn.choice(["\n", "\r\n"]).join(lines).encode()
    rows = [_row(drawn, signature, dtype) for _ in range(drawn.randint(0, 3))]
    if content_type == "application/jsonlines":
        return "\n".join(rows).encode()
    form = drawn.randrange(4)
    if form == 0:
        text = f'{{"instances": [{", ".join(rows)}]}}'
    elif form == 1:
        named = f"{{{_named(drawn, signature, dtype, rank=2)}}}"
        text = f'{{"inputs": {_nested(drawn, dtype, 2) if drawn.random() < 0.3 else named}}}'
    elif form == 2:
        text = f"[{', '.join(rows)}]"
    else:
        text = rows[0] if rows else "[]"
    if drawn.random() < 0.05:
        text = text.replace("{", '{"inputs": [1], ', 1)
    return (b"\xef\xbb\xbf" if drawn.random() < 0.02 else b"") + text.encode()


def _row(drawn: random.Random, signature: str, dtype: str) -> str:
    named = _named(drawn, signature, dtype, rank=1) if drawn.random() < 0.5 else ""
    return f"{{{named}}}" if named else _nested(drawn, dtype, drawn.choice([0, 1, 1, 2]))


def _inputs(
    drawn: random.Random, signature: str, dtype: str, chance: float = 0.1, odd: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    """The names and types of a signature; by a `chance` one twice, or "z" or an odd one too."""
    names = {"": ["x"], "two": ["a", "b"]}.get(signature, ["v"])
    if drawn.random() < chance:
        names = [*names, drawn.choice([*names, "z", *odd])]
    return [(name, {"a": "int64", "b": "string"}.get(name, dtype)) for name in names]


def _named(drawn: random.Random, signature: str, dtype: str, *, rank: int) -> str:
    rank -= signature == "two"
    inputs = _inputs(drawn, signature, dtype)
    return ", ".join(f'"{name}": {_nested(drawn, kind, rank)}' for name, kind in inputs)


def _nested(drawn: random.Random, dtype: str, rank: int) -> str:
    if rank == 0:
        return _leaf(drawn, dtype)
    width = 3 if drawn.random() < 0.8 else drawn.randint(0, 3)
    return f"[{', '.join(_nested(drawn, dtype, rank - 1) for _ in range(width))}]"


def _leaf(drawn: random.Random, dtype: str) -> str:
    if drawn.random() < 0.06:
        return drawn.choice(_NUMBERS)
    if dtype == "string":
        return json.dumps(drawn.choice(["a", "b:c", "", "\u00e4", "\0"]))
    if dtype == "bool":
        return drawn.choice(["true", "false"])
    if "int" in dtype:
        return str(drawn.randint(0, 127))
    return drawn.choice(["1", "2.5", "-0.1", "1e5", "0.30000001", str(drawn.random())])


# --- NumPy's files


def _npy(drawn: random.Random, _: str, signature: str, dtype: str) -> bytes:
    shape = (drawn.randint(0, 3), 3) if not signature else tuple(_sizes(drawn))
    array = _array(drawn, dtype, shape)
    file = io.BytesIO()
    if drawn.random() < 0.7:
        version: Any = drawn.choice([None, None, (1, 0), (2, 0), (3, 0)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for a version that is not needed
            np.lib.format.write_array(file, array, version=version)
        return file.getvalue()
    descr: Any = drawn.choice([array.dtype.str, "f4,f4", "(2,)f4", "|O", "<f8", "U2", "S0", "<f16"])
    said = (
        f"{{'descr': {descr!r}, 'fortran_order': {drawn.choice([False, True, 0, 'False', None])!r}, "
        f"'shape': {drawn.choice([array.shape, array.shape[:1], (3, True), (1 << 70,), (-1,)])!r}"
        f"{drawn.choice(['', ', ', ', }', ', 1: 2'])}}}{' ' * drawn.randint(0, 9)}\n"
    )
    version = drawn.choice([1, 1, 2, 3, 4])
    length = len(said).to_bytes(2 if version == 1 else 4, "little")
    return b"".join((b"\x93NUMPY", bytes([version, 0]), length, said.encode(), array.tobytes()))


def _array(drawn: random.Random, dtype: str, shape: tuple[int, ...]) -> Any:
    count = int(np.prod(shape))
    if dtype == "string":
        found = np.array(drawn.choices(["a", "bc", "", "\u00e4"], k=count) or [""])[:count]
        if drawn.random() < 0.4:
            found = np.char.encode(found, "utf-8") if count else found.astype("S1")
        return found.reshape(shape)
    name = {"bfloat16": "float32"}.get(dtype, dtype).removeprefix("q")
    kind = np.dtype(name if drawn.random() < 0.9 else drawn.choice(["f8", "i8", "u1", "c8", "?"]))
    if kind.kind == "b":
        return np.array(drawn.choices([True, False], k=count), kind).reshape(shape)
    array = np.frombuffer(drawn.randbytes(count * kind.itemsize), kind).reshape(shape)
    if drawn.random() < 0.2:
        array = np.asfortranarray(array)
    return array.astype(kind.newbyteorder(">")) if drawn.random() < 0.2 else array


def _sizes(drawn: random.Random) -> list[int]:
    return [drawn.randint(0, 3) for _ in range(drawn.randint(0, 3))]


def _npz(drawn: random.Random, content_type: str, signature: str, dtype: str) -> bytes:
    inputs = _inputs(drawn, signature, dtype)
    file = io.BytesIO()
    method = drawn.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", method) as archive:
        warnings.simplefilter("ignore")  # for a name that appears twice
        for name, kind in inputs:
            # Of signature "two" any number of dimensions is drawn; few fit.
            archive.writestr(f"{name}.npy", _npy(drawn, content_type, signature, kind))
    return (b"junk" if drawn.random() < 0.02 else b"") + file.getvalue()


# --- protobuf, written by hand

_VARINT, _FIXED64, _BYTES, _GROUP, _FIXED32 = 0, 1, 2, 3, 5
_ODD = 0.012  # how often one place is written as no writer writes it
_FIELDS = {
    "float32": (5, "<f4"), "float64": (6, "<f8"), "complex64": (9, "<f4"), "complex128": (12, "<f8"),
    "string": (8, ""), "int64": (10, ""), "bool": (11, ""), "float16": (13, ""), "bfloat16": (13, ""),
    "uint32": (16, ""), "uint64": (17, ""),
}  # fmt: skip
_INTEGERS = [
    -1, -128, 128, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 32) + 5,
    (1 << 63) - 1, 1 << 63, (1 << 64) - 1, -(1 << 31),
]  # fmt: skip


def _protobuf(drawn: random.Random, _: str, signature: str, dtype: str) -> bytes:
    inputs = _inputs(drawn, signature, dtype, 0.08, ("", "\xff", "w" * 200))
    pieces = [_entry(drawn, name.encode("latin-1"), kind, signature) for name, kind in inputs]
    if drawn.random() < 0.3:
        spec = _field(drawn, 1, _BYTES, drawn.choice([b"m", b"", b"other", b"\xff"]))
        if drawn.random() < 0.3:
            spec += _field(drawn, 2, _BYTES, drawn.choice([b"\x08\x01", b"", b"\x08", b"\x0a\x00"]))
        pieces.append(_field(drawn, 1, _BYTES, spec))
    if drawn.random() < 0.05:
        number, kind = drawn.choice([1, 2, 3, 5, 9]), drawn.choice([0, 1, 2, 5])
        pieces.append(_field(drawn, number, kind, b"y"))
    drawn.shuffle(pieces)
    return b"".join(pieces)


def _entry(drawn: random.Random, name: bytes, dtype: str, signature: str) -> bytes:
    number = DTYPES[dtype]
    if drawn.random() < 0.02:
        number = drawn.choice([0, 20, 21, 99, 101, (1 << 32) + 1, number + (1 << 32), 1 << 63])
    sizes = {"": [drawn.randint(0, 2), 3], "two": [drawn.randint(0, 2)]}.get(signature)
    sizes = _sizes(drawn) if sizes is None else sizes
    count = int(np.prod(sizes))
    if drawn.random() < 0.04:
        sizes = [*sizes, drawn.choice([-1, 1 << 20, 1 << 33, 1 << 62, (1 << 64) - 1, 0, 1])]
    parts = [_field(drawn, 1, _VARINT, number)]
    dims = [_field(drawn, 2, _BYTES, _field(drawn, 1, _VARINT, size)) for size in sizes]
    if drawn.random() < 0.02:
        dims.append(_field(drawn, 3, _VARINT, drawn.choice([0, 1, 1 << 40])))
    parts.append(_field(drawn, 2, _BYTES, b"".join(dims)))
    parts += _values(drawn, dtype, count if drawn.random() < 0.9 else drawn.randint(0, 4))
    if drawn.random() < 0.1:
        drawn.shuffle(parts)
    if drawn.random() < 0.05:
        parts.insert(drawn.randint(0, len(parts)), drawn.choice(parts))
    pair = [_field(drawn, 1, _BYTES, name), _field(drawn, 2, _BYTES, b"".join(parts))]
    if drawn.random() < 0.04:
        pair = drawn.choice([pair[::-1], pair[:1], pair[1:], [*pair, pair[1]]])
    return _field(drawn, 2, _BYTES, b"".join(pair))


def _values(drawn: random.Random, dtype: str, count: int) -> list[bytes]:
    number, width = _FIELDS.get(dtype, (7, ""))
    if drawn.random() < 0.4 and dtype != "string":
        size = {"bfloat16": 2}.get(dtype) or np.dtype(dtype.removeprefix("q")).itemsize
        content = drawn.randbytes(size * count)
        if dtype == "bool" and drawn.random() < 0.9:
            content = bytes(one & 1 for one in content)
        return [_field(drawn, 4, _BYTES, content)]
    if drawn.random() < 0.1:
        count = 1
    if drawn.random() < 0.02:
        number = drawn.choice([5, 6, 7, 8, 10, 13, 14, 15, 18])
    if dtype == "string":
        texts = [drawn.choice([b"", b"a", b"\xff\0", b"abc"]) for _ in range(count)]
        return [_field(drawn, number, _BYTES, text) for text in texts]
    if dtype.startswith("complex"):
        count *= 2
    if width:
        numbers = [drawn.randbytes(int(width[2:])) for _ in range(count)]
        if drawn.random() < 0.7:
            return [_field(drawn, number, _BYTES, b"".join(numbers))]
        kind = _FIXED32 if width == "<f4" else _FIXED64
        return [_field(drawn, number, kind, one) for one in numbers]
    most = {"bool": 1}.get(dtype, 127)
    integers = [drawn.randint(0, most) for _ in range(count)]
    if integers and drawn.random() < 0.1:
        integers[drawn.randrange(count)] = drawn.choice(_INTEGERS)
    if drawn.random() < 0.7:
        packed = b"".join(_varint(drawn, integer) for integer in integers)
        return [_field(drawn, number, _BYTES, packed)]
    return [_field(drawn, number, _VARINT, integer) for integer in integers]


def _field(drawn: random.Random, number: int, kind: int, value: bytes | int) -> bytes:
    tag = number << 3 | kind
    written = _varint(drawn, tag)
    if drawn.random() < _ODD:
        odd = drawn.randrange(5)
        if odd == 0:
            written = _varint(drawn, tag | drawn.choice([1, 3, 1 << 20]) << 32)
        elif odd == 1:
            written = _longer(written, drawn.randint(1, 9))
        elif odd == 2:
            written = bytes([number << 3 | drawn.choice([3, 4, 6, 7])])
        elif odd == 3:
            written = bytes([kind]) + written
        else:
            written = bytes([number << 3 & 0x7F | drawn.choice([0, 1, 2, 5])])
    if kind == _BYTES:
        body = value if isinstance(value, bytes) else struct.pack("<q", value)
        length = _varint(drawn, len(body) + (drawn.random() < _ODD / 4))
        return written + length + body
    if kind == _VARINT:
        return written + _varint(drawn, value if isinstance(value, int) else 1)
    width = 8 if kind == _FIXED64 else 4
    return written + (value if isinstance(value, bytes) else b"")[:width].ljust(width, b"\0")


def _varint(drawn: random.Random, value: int) -> bytes:
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    if drawn.random() < _ODD / 2:
        return _longer(bytes(found), drawn.randint(1, 9))
    if drawn.random() < _ODD / 8:
        return b"\xff" * 9 + bytes([drawn.choice([1, 2, 0x7F, 0x80])])
    return bytes(found)


def _longer(varint: bytes, zeros: int) -> bytes:
    return varint[:-1] + bytes([varint[-1] | 0x80]) + b"\x80" * (zeros - 1) + b"\0"
