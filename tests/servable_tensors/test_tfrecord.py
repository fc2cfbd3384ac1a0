"""TFRecord framing, against TensorFlow's own reader and against damage."""

import io
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_tensors.tfrecord import (
    RecordError,
    compute_crc32c,
    frame_records,
    mask_crc,
    read_records,
)


def test_the_crc_has_the_published_values() -> None:
    # RFC 3720, appendix B.4, and the catalogue of CRCs: "123456789".
    assert compute_crc32c(b"123456789") == 0xE3069283
    assert compute_crc32c(bytes(32)) == 0x8A9136AA


@given(st.lists(st.binary(max_size=50), max_size=5))
def test_what_is_read_is_what_was_framed(records: list[bytes]) -> None:
    assert list(read_records(io.BytesIO(frame_records(records)))) == records


def test_tensorflow_reads_the_same_records(tmp_path: Path) -> None:
    import tensorflow as tf

    records = [b"", b"one", bytes(range(256)) * 5]
    (tmp_path / "records").write_bytes(frame_records(records))
    dataset = tf.data.TFRecordDataset(str(tmp_path / "records"))
    assert [record.numpy() for record in dataset] == records


FRAMED = frame_records([b"first", b"second"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (FRAMED[:5], "record 0: the file ends inside the length"),
        (FRAMED[:-1], "record 1: the file ends inside the record"),
        (b"\1" + FRAMED[1:], "record 0: the length's CRC doesn't match"),
        (FRAMED[:12] + b"F" + FRAMED[13:], "record 0: the CRC doesn't match"),
    ],
)
def test_damage_names_the_record(content: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=f"^{message}$"):
        list(read_records(io.BytesIO(content)))


def test_a_length_beyond_reason_is_not_believed() -> None:
    length = struct.pack("<Q", 1 << 40)
    header = length + struct.pack("<I", mask_crc(compute_crc32c(length)))
    with pytest.raises(RecordError, match="record 0: 1099511627776 bytes long; at most 67108864"):
        list(read_records(io.BytesIO(header)))
