"""servable_tensors/npy.py and npz.py: NumPy's own files both ways, and every damage a 400 or 413."""

import io
import re
import zipfile
from typing import Any

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from servable_handler.request import convert_error
from servable_tensors import TensorError
from servable_tensors.npy import NpyRelay, from_npy, from_npz, to_npy, to_npz
from servable_tensors.predict_messages import serialize_predict_request
from servable_tensors.signature import Signature, TensorSpec
from tests.servable_handler.conftest import npy, npz

SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
TYPES = ["<f4", ">f8", "<i8", "u1", "<c8", "<f2"]


@pytest.mark.long
@given(st.sampled_from(TYPES).flatmap(lambda dtype: arrays.arrays(dtype, SHAPES)))
def test_numpy_reads_what_we_write_and_we_read_what_numpy_writes(array: Any) -> None:
    assert np.array_equal(from_npy(npy(array)), array, equal_nan=True)
    assert np.array_equal(np.load(io.BytesIO(to_npy(array))), array, equal_nan=True)


def test_arrays_and_archives_are_read_and_written_by_name() -> None:
    array = np.asfortranarray(np.arange(6).reshape(2, 3))
    assert from_npy(npy(array)).tolist() == array.tolist()
    assert from_npy(npy(np.array([["ä"], ["b"]]))).tolist() == [["ä".encode()], [b"b"]]
    assert from_npy(npy(np.array([True, False]))[:-2] + b"\x07\x00").view("u1").tolist() == [1, 0]
    found = from_npz(npz(a=np.arange(3), b=np.float32(1)))
    assert {name: array.tolist() for name, array in found.items()} == {"a": [0, 1, 2], "b": 1.0}
    found = np.load(io.BytesIO(to_npz({"a": np.arange(3), "b": np.zeros((0, 2))})))
    assert (found["a"].tolist(), found["b"].shape) == ([0, 1, 2], (0, 2))
    assert to_npz({"a": np.arange(3)}) == to_npz({"a": np.arange(3)})
    with pytest.raises(TensorError, match="drop zeros at a string's end"):
        to_npy(np.array([b"ends in zero\0"], object))


GOOD = npy(np.zeros(3, np.float32))


def header(text: str, rest: bytes = b"", version: int = 1) -> bytes:
    length = len(text).to_bytes(2, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + rest


@pytest.mark.parametrize(("body", "words"), [
    (b"", "it does not begin as one"),
    (b"PK", "it does not begin as one"),
    (GOOD[:-1], "12 bytes; 11 follow"),
    (GOOD + b"1", "12 bytes; 13 follow"),
    (GOOD[:20], "version 1.0 with a header of 118 bytes isn't supported"),
    (header("{}"), "the header can't be parsed (KeyError)"),
    (header("{'descr': '<f4', 'fortran_order': False, 'shape': (10000000000000,)}"), "0 follow"),
    (header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "the shape (-1,) is invalid"),
    (header("{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 0)}"), "too large"),
    (header("{'descr': '<f4', 'fortran_order': 0, 'shape': (0,)}"), "more than NumPy writes"),
    (header("{'descr': '<f4', 'fortran_order': False, 'shape': (0,), 1: 2}"), "more than NumPy writes"),
    (header("{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}\x1c"), "can't be parsed"),
    (GOOD.replace(b"NUMPY\x01\0", b"NUMPY\x01\1"), "version 1.1"),
    (header("{'descr': '<f4', 'fortran_order': False, 'shape': 3}"), "isn't numbers or strings"),
    (header("{'descr': 'O', 'fortran_order': False, 'shape': ()}"), "it holds object"),
    (header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"), "it contains records"),
    (header("{'descr': '<M8[s]', 'fortran_order': False, 'shape': ()}"), "it contains records"),
    (header("{'descr': 'f9', 'fortran_order': False, 'shape': ()}"), "(TypeError)"),
    (header("(" * 500), "it contains records"),
    (header("-" * 5000), "the header can't be parsed"),
    (header("{'descr': '<U1', 'fortran_order': False, 'shape': (1,)}", b"\xff" * 4), "valid Unicode"),
    (npy(np.array([{}])), "it holds object"),
])  # fmt: skip
def test_what_is_no_npy_is_400_and_says_why(body: bytes, words: str) -> None:
    with pytest.raises(TensorError, match=re.escape(words)) as raised:
        from_npy(body, "x")
    assert convert_error(raised.value).status == 400


def bomb(size: int, count: int = 1) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for number in range(count):
            archive.writestr(f"{number}.npy", bytes(size))
    return file.getvalue()


@pytest.mark.parametrize(("size", "count"), [((64 << 20) + 1, 1), (22 << 20, 3)])
def test_a_bomb_is_413_while_packed(size: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    body = bomb(size, count)
    monkeypatch.setattr(zipfile.ZipFile, "open", None)
    with pytest.raises(TensorError, match="unpacks to .* the maximum is 67108864") as raised:
        from_npz(body)
    assert convert_error(raised.value).status == 413


def test_an_archive_that_lies_or_is_of_another_kind_is_400() -> None:
    body = bomb(1 << 20)
    for marker in (b"PK\x01\x02", b"PK\x03\x04"):
        at = body.index(marker) + (24 if marker[2] == 1 else 22)
        body = body[:at] + (100).to_bytes(4, "little") + body[at + 4 :]
    with pytest.raises(TensorError) as raised:
        from_npz(body)
    assert convert_error(raised.value).status == 400
    for method in [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]:
        with pytest.raises(TensorError, match="compressed with a method other"):
            from_npz(compressed(method))

    with zipfile.ZipFile(file := io.BytesIO(), "w") as archive:
        archive.writestr("x.npy", GOOD)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr("x.npy", GOOD)
    with pytest.raises(TensorError, match="the same name twice"):
        from_npz(file.getvalue())


def compressed(method: int) -> bytes:
    with zipfile.ZipFile(file := io.BytesIO(), "w", method) as archive:
        archive.writestr("x.npy", GOOD)
    return file.getvalue()


def test_a_header_that_was_seen_stands_for_other_numbers_of_its_shape_alone() -> None:
    bodies = [npy(np.full((2, 3), number, np.float32)) for number in range(3)]
    assert [from_npy(body).tolist() for body in bodies] == [[[n] * 3] * 2 for n in range(3)]
    from_npy(npy(np.zeros((2, 3), np.float32)))
    assert from_npy(npy(np.zeros((3, 2), np.int32))).shape == (3, 2)
    signature = Signature("s", {"x": TensorSpec(1, (None, None))}, {})
    requests = [serialize_predict_request(b"", {"x": from_npy(each)}, signature) for each in bodies]
    relay = NpyRelay()
    relay.learn(bodies[0], requests[0], signature)
    assert [relay.build_request(body) for body in bodies] == requests
    assert relay.build_request(npy(np.zeros((3, 2), np.float32))) is None
