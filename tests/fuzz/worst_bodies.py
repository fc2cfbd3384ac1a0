"""Bodies of at most 1 MB that cost as much as such bodies can: found by trying, kept as they are.

`python -m tests.fuzz.worst_bodies [WORD …]` prints what they cost a worker, as lines of JSON. Each
is answered in a process of its own, forked from this one: what the operating system says of that
process is what the body takes at most.
"""

import ctypes
import io
import json
import logging
import os
import resource
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from servable_tensors.codecs import CSV, JSON, JSON_LINES, NPY, NPZ, PROTOBUF
from servable_tensors.wire import encode_varint
from tests.fuzz.body_checks import Checked
from tests.fuzz.body_generator import Body
from tests.servable_handler.conftest import npy

MB = 1_000_000
TRANSPORTS = ("auto", "grpc", "rest")


def _field(number: int, payload: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(payload)) + payload


def _shape(*sizes: int) -> bytes:
    return _field(2, b"".join(_field(2, b"\x08" + encode_varint(size)) for size in sizes))


def _input(name: bytes, dtype: int, shape: bytes, values: bytes) -> bytes:
    return _field(2, _field(1, name) + _field(2, b"\x08" + encode_varint(dtype) + shape + values))


def _npz(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, member in members.items():
            archive.writestr(name, member)
    return file.getvalue()


def _bomb_of_inputs(count: int) -> bytes:
    # Each takes 64 MiB with one value for all.
    one = b"\x2d\0\0\0\0"
    return b"".join(_input(b"%d" % n, 1, _shape(16 << 20), one) for n in range(count))


def _text(pattern: str, before: str = '{"inputs": [', after: str = "]}") -> bytes:
    many = (MB - len(before) - len(after)) // len(pattern)
    return f"{before}{(pattern * many).rstrip(',')}{after}".encode()


WORST: dict[str, Callable[[], Body]] = {
    # protobuf
    "1,030 bytes of tensors with one value for all": lambda: Body(PROTOBUF, "", _bomb_of_inputs(40)),
    "one tensor with one value for all": lambda: Body(
        PROTOBUF, "", _input(b"x", 1, _shape(5592405, 3), b"\x2d\0\0\0\0")
    ),
    "8 GB of zeros": lambda: Body(PROTOBUF, "", _input(b"x", 9, _shape(1 << 30), b"\x50\1")),
    "1 GB without a value": lambda: Body(PROTOBUF, "", _input(b"x", 2, _shape(1 << 27), b"")),
    "one long string for all": lambda: Body(
        PROTOBUF, "echo_string", _input(b"v", 7, _shape(2_000_000), _field(8, bytes(MB - 60)))
    ),
    "empty strings": lambda: Body(
        PROTOBUF, "echo_string", _input(b"v", 7, _shape(499_900), b"\x42\0" * 499_900)
    ),
    "single truth values": lambda: Body(
        PROTOBUF, "echo_bool", _input(b"v", 10, _shape(499_900), b"\x58\1" * 499_900)
    ),
    "packed integers of one byte": lambda: Body(
        PROTOBUF, "echo_int32", _input(b"v", 3, _shape(MB - 60), _field(7, b"\1" * (MB - 60)))
    ),
    "packed integers of ten bytes": lambda: Body(
        PROTOBUF, "echo_int32", _input(b"v", 3, _shape(99_990), _field(7, (b"\xff" * 9 + b"\1") * 99_990))
    ),
    "packed pieces of one integer": lambda: Body(
        PROTOBUF, "echo_int64", _input(b"v", 9, _shape(333_300), b"\x52\1\1" * 333_300)
    ),
    "packed pieces of nothing": lambda: Body(
        PROTOBUF, "echo_float32", _input(b"v", 1, _shape(0), b"\x2a\0" * 499_900)
    ),
    "dimensions": lambda: Body(PROTOBUF, "", _input(b"x", 1, _shape(*[1] * 200_000), b"")),
    "unknown fields": lambda: Body(PROTOBUF, "", b"\x48\1" * (MB // 2)),
    "groups": lambda: Body(PROTOBUF, "", b"\x4b\x4c" * (MB // 2)),
    "output filters": lambda: Body(PROTOBUF, "", b"\x1a\0" * (MB // 2)),
    "model specs": lambda: Body(PROTOBUF, "", b"\x0a\2\x0a\0" * (MB // 4)),
    "versions": lambda: Body(PROTOBUF, "", b"\x0a\4\x12\2\x08\1" * (MB // 6)),
    "small inputs": lambda: Body(
        PROTOBUF, "", b"".join(_input(b"%06d" % n, 1, _shape(0), b"") for n in range(43_000))
    ),
    "small inputs of one dimension each that are strings": lambda: Body(
        PROTOBUF, "", b"".join(_input(b"%06d" % n, 7, _shape(1), b"\x42\0") for n in range(4_096))
    ),
    # NumPy's files
    "strings of one letter in .npy": lambda: Body(NPY, "echo_string", npy(np.full(MB - 200, b"a"))),
    "strings of two letters in .npy": lambda: Body(NPY, "echo_string", npy(np.full(490_000, b"ab"))),
    "strings of Unicode in .npy": lambda: Body(NPY, "echo_string", npy(np.full(240_000, "\U0001f600"))),
    "one string in .npy": lambda: Body(NPY, "echo_string", npy(np.array(b"a" * (MB - 200)))),
    "floats in .npy": lambda: Body(NPY, "echo_float32", npy(np.ones(MB // 4 - 50, "f4"))),
    "floats of the other order in .npy": lambda: Body(
        NPY, "echo_float32", npy(np.asfortranarray(np.ones((500, 400), ">f4")))
    ),
    "truth values in .npy": lambda: Body(NPY, "echo_bool", npy(np.ones(MB - 200, bool))),
    "floats for bfloat16 in .npy": lambda: Body(NPY, "echo_bfloat16", npy(np.ones(MB // 4 - 50, "f4"))),
    "a header of minus signs": lambda: Body(NPY, "", b"\x93NUMPY\2\0\x10\x27\0\0" + b"-" * 10_000),
    "a header of sums": lambda: Body(NPY, "", b"\x93NUMPY\2\0\x10\x27\0\0" + b"1+" * 5_000),
    "a header of digits": lambda: Body(NPY, "", b"\x93NUMPY\2\0\x10\x27\0\0" + b"7" * 10_000),
    "a header of 1 MB": lambda: Body(
        NPY, "", b"\x93NUMPY\2\0" + (MB - 12).to_bytes(4, "little") + b" " * (MB - 12)
    ),
    "an archive that unpacks to 64 MiB": lambda: Body(
        NPZ, "echo_float32", _npz({"v.npy": npy(np.ones((64 << 18) - 100, "f4"))})
    ),
    "an archive of strings": lambda: Body(
        NPZ, "echo_string", _npz({"v.npy": npy(np.full((1 << 19, 100), b"a"))})
    ),
    "an archive of as many strings as are allowed": lambda: Body(
        NPZ, "echo_string", _npz({"v.npy": npy(np.full(1 << 19, b"a" * 100))})
    ),
    "an archive of many members": lambda: Body(
        NPZ, "", _npz({f"{n}.npy": b"" for n in range(9_500)}, zipfile.ZIP_STORED)
    ),
    # text
    "empty lists": lambda: Body(JSON, "", _text("[],")),
    "empty objects": lambda: Body(JSON, "", _text("{},")),
    "rows of nothing": lambda: Body(JSON, "", _text("{},", '{"instances": [')),
    "rows": lambda: Body(JSON, "", _text('{"x":1},', '{"instances": [')),
    "rows of lists": lambda: Body(JSON, "", _text('{"x":[1,2,3]},', '{"instances": [')),
    "base64": lambda: Body(JSON, "echo_string", _text('{"b64":""},')),
    "a fraction and large integers": lambda: Body(
        JSON, "", _text("18446744073709551616,", '{"inputs": [0.5,')
    ),
    "digits": lambda: Body(JSON, "echo_int32", _text("1,")),
    "floats": lambda: Body(JSON, "echo_float32", _text("1.5,")),
    "long floats": lambda: Body(JSON, "echo_float32", _text("0.12345678901234567,")),
    "texts": lambda: Body(JSON, "echo_string", _text('"ab",')),
    "empty texts": lambda: Body(JSON, "echo_string", _text('"",')),
    "colons in texts": lambda: Body(JSON, "echo_string", _text('":",')),
    "lists of one": lambda: Body(JSON, "echo_float32", _text("[1],")),
    "truth values": lambda: Body(JSON, "echo_bool", _text("true,")),
    "one number of a million digits": lambda: Body(JSON, "echo_float32", _text("1")),
    "one fraction of a million digits": lambda: Body(JSON, "echo_float32", _text("1", '{"inputs": [0.')),
    "one exponent of a million digits": lambda: Body(JSON, "echo_float32", _text("1", '{"inputs": [1e-')),
    "numbers of 4,300 digits": lambda: Body(JSON, "echo_float32", _text("1" * 4299 + ",")),
    "floats of 4,300 digits": lambda: Body(JSON, "echo_float32", _text("0." + "1" * 4299 + ",")),
    "floats of 700 digits near a half": lambda: Body(
        JSON, "echo_float64", _text("9007199254740993." + "0" * 700 + "1,")
    ),
    "brackets": lambda: Body(JSON, "", b'{"inputs": ' + b"[" * (MB - 11)),
    "a key again and again": lambda: Body(JSON, "", _text('"x":1,', '{"inputs": {', "}}")),
    "keys": lambda: Body(
        JSON, "", json.dumps({"inputs": {str(n): 1 for n in range(80_000)}}).encode()
    ),
    "rows of different keys": lambda: Body(
        JSON, "", json.dumps({"instances": [{str(n): 1} for n in range(60_000)]}).encode()
    ),
    "bytes that are no UTF-8": lambda: Body(JSON, "", b'{"inputs": "' + b"\xff" * (MB - 14) + b'"}'),
    "quotes": lambda: Body(JSON, "", b'"' * MB),
    "spaces": lambda: Body(JSON, "", b"]" + b" " * (MB - 1)),
    "closing brackets and spaces": lambda: Body(JSON, "", (b"]" + b" " * 999) * 1000),
    "lines of nothing": lambda: Body(JSON_LINES, "", b"{}\n{}" + b"\n" * (MB - 5)),
    "returns": lambda: Body(JSON_LINES, "", b"{} {}" + b"\r" * (MB - 5)),
    "lines": lambda: Body(JSON_LINES, "echo_float32", b"[1]\n" * (MB // 4)),
    "lines of objects": lambda: Body(JSON_LINES, "", b'{"x":1}\n' * (MB // 8)),
    "lines of numbers": lambda: Body(CSV, "echo_float32", b"1\n" * (MB // 2)),
    "lines of commas": lambda: Body(CSV, "echo_float32", b",\n" * (MB // 2)),
    "lines of two numbers": lambda: Body(CSV, "echo_float32", b"1,2\n" * (MB // 4)),
    "lines of two letters": lambda: Body(CSV, "echo_string", b"a,b\n" * (MB // 4)),
    "one line": lambda: Body(CSV, "echo_float32", b"1," * (MB // 2 - 1) + b"1"),
    "lines of a letter beyond Latin": lambda: Body(CSV, "echo_string", "\U0001f600,b\n".encode() * (MB // 7)),
}  # fmt: skip


def cost_of(answer: Callable[[], int]) -> dict[str, Any]:
    """Status, CPU-seconds, and the MiB that the process grew by at most."""
    reading, writing = os.pipe()
    # What was freed and kept would hide what is taken again.
    ctypes.CDLL(None).malloc_trim(0)
    process = os.fork()
    if not process:
        pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1])
        before_mib = pages * resource.getpagesize() / 1024**2
        began = time.process_time()
        status = answer()
        cpu_seconds = time.process_time() - began
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before_mib
        found = {"status": status, "cpu_seconds": cpu_seconds, "peak_mib": peak_mib}
        os.write(writing, json.dumps(found).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    os.waitpid(process, 0)
    parsed: dict[str, Any] = json.loads(text or b'{"status": 0, "cpu_seconds": 0, "peak_mib": 0}')
    return parsed


def costs(words: list[str]) -> Iterator[dict[str, Any]]:
    with Checked(1) as checked:
        for transport in TRANSPORTS:  # what is imported and learnt once is not counted
            checked.status(Body("application/json", "", b"[[1,2,3]]"), transport)
            checked.status(Body("text/csv", "", b"1,2,3"), transport)
        for name, make in WORST.items():
            if words and not any(word in name for word in words):
                continue
            body = make()
            for transport in TRANSPORTS:
                # A model server that refuses makes the handler explain.
                for refuses in (False, True) if transport == "auto" else (False,):
                    asked = partial(checked.status, body, transport, refuses=refuses)
                    of_body = {"content_type": body.content_type, "bytes": len(body.bytes)}
                    how = {"name": name, "transport": transport, "refuses": refuses}
                    yield {**how, **of_body, **cost_of(asked)}


if __name__ == "__main__":
    logging.disable()
    for line in costs(sys.argv[1:]):
        print(json.dumps(line), flush=True)
