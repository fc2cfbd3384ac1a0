"""Answers damaged at random are read as the formats' own libraries read them, or are a BadAnswer.

Longer, by hand: `python -m tests.fuzz.client_answers --answers 50000`.
"""

import io
import json
import os
import resource
import time
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servable_client.errors import BadAnswerError
from servable_client.formats import decode, find_content_type, load_codecs
from tests.fuzz.client_answers import MOST_CPU_SECONDS, check, check_body, run
from tests.fuzz.client_reference import Response

MEGABYTE = 1_000_000


@settings(max_examples=800, deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_a_damaged_answer_is_read_as_the_reference_reads_it_or_refused(seed: int) -> None:
    check(seed)


@pytest.mark.long
def test_many_damaged_answers_are_read_as_the_reference_reads_them_or_refused() -> None:
    outcomes, faults = run(1_000_000, 40_000, seconds=30)
    assert faults == []
    assert all(outcomes[f"{form} read"] for form in load_codecs())


def one_tensor(size: int, dtype: int, fields: bytes) -> bytes:
    """A response with the output "y" of shape [size]."""
    head = Response()
    head.outputs["y"].dtype = dtype
    head.outputs["y"].tensor_shape.dim.add(size=size)
    tensor: bytes = head.outputs["y"].SerializeToString() + fields
    entry = b"\x0a\x01y\x12" + varint(len(tensor)) + tensor
    return b"\x0a" + varint(len(entry)) + entry


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def many_dimensions() -> bytes:
    dimension = b"\x12\x0a\x08" + varint(2**62)
    shape = dimension * (MEGABYTE // len(dimension) - 10)
    tensor = b"\x08\x01\x12" + varint(len(shape)) + shape
    entry = b"\x0a\x01y\x12" + varint(len(tensor)) + tensor
    return b"\x0a" + varint(len(entry)) + entry


def many_outputs() -> bytes:
    response = Response()
    for number in range(50_000):
        response.outputs[f"{number:05}"].dtype = 1
    return bytes(response.SerializeToString())


def fields_before(fields: bytes, count: int) -> bytes:
    return fields * (count // len(fields)) + one_tensor(1, 1, b"\x22\x04\x00\x00\x80\x3f")


def packed(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def npy(array: object) -> bytes:
    file = io.BytesIO()
    np.save(file, np.asarray(array))
    return file.getvalue()


def bomb() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("y.npy", npy(np.zeros(100_000_000, np.uint8)))
    return file.getvalue()


def many_members() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(7000):
            archive.writestr(f"{number}", b"")
    return file.getvalue()


def values(count: int) -> bytes:
    return b"\x01" * count


# How many times its own bytes an answer may take: numbers that lie in it as in memory are shared;
# a varint of one byte becomes eight, a string an object of Python's.
NUMBERS, OBJECTS, TEXT = 4, 80, 80
HOSTILE: dict[str, tuple[str, int, Callable[[], bytes]]] = {
    "a tensor that claims 8 GB": ("protobuf", NUMBERS, lambda: one_tensor(2**30, 9, b"\x50\x01")),
    "a tensor that claims 1 GB": ("protobuf", NUMBERS, lambda: one_tensor(2**27, 2, b"")),
    "many dimensions": ("protobuf", 20, many_dimensions),
    "many outputs": ("protobuf", OBJECTS, many_outputs),
    "numbers as bytes": (
        "protobuf", NUMBERS, lambda: one_tensor(250_000, 1, packed(4, bytes(MEGABYTE))),
    ),
    "packed floats": ("protobuf", NUMBERS, lambda: one_tensor(250_000, 1, packed(5, bytes(MEGABYTE)))),
    "floats one by one": (
        "protobuf", OBJECTS, lambda: one_tensor(200_000, 1, b"\x2d\x00\x00\x80\x3f" * 200_000),
    ),
    "integers of one byte": (
        "protobuf", OBJECTS, lambda: one_tensor(MEGABYTE - 100, 9, packed(10, values(MEGABYTE - 100))),
    ),
    "empty strings": ("protobuf", OBJECTS, lambda: one_tensor(499_000, 7, b"\x42\x00" * 499_000)),
    "short strings": ("protobuf", OBJECTS, lambda: one_tensor(249_000, 7, b"\x42\x02ab" * 249_000)),
    "unknown fields": ("protobuf", OBJECTS, lambda: fields_before(b"\x18\x01", MEGABYTE - 100)),
    "groups": ("protobuf", OBJECTS, lambda: fields_before(b"\x1b\x1c", MEGABYTE - 100)),
    "numbers": ("npy", NUMBERS, lambda: npy(np.zeros(999_000, np.uint8))),
    "strings of one byte": ("npy", OBJECTS, lambda: npy(np.full(999_000, b"a"))),
    "text of one character": ("npy", OBJECTS, lambda: npy(np.full(249_000, "☃"))),
    "numbers in an archive": ("npz", NUMBERS * 2, lambda: zipped(npy(np.zeros(999_000, np.uint8)))),
    "an archive that unpacks to 100 MB": ("npz", NUMBERS, bomb),
    "very many members": ("npz", OBJECTS, many_members),
    "deep": ("json", TEXT, lambda: b'{"outputs":' + b"[" * 999_000),
    "deep and whole": ("json", TEXT, lambda: b'{"outputs":' + b"[" * 900 + b"]" * 900 + b"}"),
    "short numbers": ("json", TEXT, lambda: b'{"outputs":[' + b"1," * 499_000 + b"1]}"),
    "large and small numbers": (
        "json", TEXT, lambda: b'{"outputs":[0.5' + b",18446744073709551616" * 45_000 + b"]}",
    ),
    "short lists": ("json", TEXT, lambda: b'{"outputs":[' + b"[]," * 330_000 + b"[]]}"),
    "very many names": (
        "json", TEXT, lambda: json.dumps({"outputs": {str(n): 1 for n in range(80_000)}}).encode(),
    ),
    "rows": ("json", TEXT, lambda: b'{"predictions":[' + b'{"y":1},' * 120_000 + b'{"y":1}]}'),
    "long numbers": ("json", TEXT, lambda: b'{"outputs":[' + b"9" * 4000 + b"," + b"9" * 990_000 + b"]}"),
}  # fmt: skip


SLOW_FOR_THE_REFERENCE = ("short lists", "short strings", "empty strings")


def zipped(content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("y.npy", content)
    return file.getvalue()


def taken(form: str, body: bytes) -> tuple[float, int]:
    """Seconds of CPU, and bytes of memory above those before, of decoding in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            began = time.process_time()
            try:
                decode(find_content_type(form), body)
            except BadAnswerError:
                pass
            seconds = time.process_time() - began
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            os.write(writer, json.dumps([seconds, grown * 1024]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 1000)
    os.close(reader)
    os.waitpid(child, 0)
    seconds, grown = json.loads(said)
    return seconds, grown


@pytest.mark.long
@pytest.mark.parametrize("name", HOSTILE)
def test_an_answer_of_a_megabyte_takes_little_time_and_memory(name: str) -> None:
    form, times, made = HOSTILE[name]
    body = made()
    assert len(body) <= MEGABYTE + 1000
    decode_once_for_imports(form)
    seconds, grown = taken(form, body)
    assert seconds < MOST_CPU_SECONDS
    assert grown < (8 << 20) + times * len(body)


def decode_once_for_imports(form: str) -> None:
    try:
        decode(find_content_type(form), b"")
    except BadAnswerError:
        pass


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in SLOW_FOR_THE_REFERENCE])
def test_an_answer_of_a_megabyte_is_read_as_the_reference_reads_it_or_refused(name: str) -> None:
    form, _, made = HOSTILE[name]
    check_body(form, made())
