"""servable_tensors/wire.py and tfrecord.py: the same bytes as TensorFlow's own, beside it in one process."""

import io
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_tensors import wire
from servable_tensors.tfrecord import (
    RecordError,
    compute_crc32c,
    frame_records,
    mask_crc,
    read_records,
)

OURS = {
    "TensorShapeProto": wire.TensorShapeProto, "TensorProto": wire.TensorProto,
    "TensorInfo": wire.TensorInfo, "SignatureDef": wire.SignatureDef,
    "AssetFileDef": wire.AssetFileDef, "MetaGraphDef": wire.MetaGraphDef,
    "BundleHeaderProto": wire.BundleHeaderProto, "BundleEntryProto": wire.BundleEntryProto,
}  # fmt: skip


def theirs(name: str) -> Any:
    from tensorflow.core.framework import tensor_pb2, tensor_shape_pb2
    from tensorflow.core.protobuf import meta_graph_pb2, tensor_bundle_pb2

    modules = (tensor_pb2, tensor_shape_pb2, meta_graph_pb2, tensor_bundle_pb2)
    return next(getattr(module, name) for module in modules if hasattr(module, name)).DESCRIPTOR


def differences(ours: Any, known: Any) -> list[str]:
    """The fields that TensorFlow knows by another number, type or repetition."""
    found = []
    for field in ours.fields:
        other = known.fields_by_name[field.name]
        # An enum that we never read by name is read as its number.
        same_type = field.type == other.type or {field.type, other.type} == {5, 14}
        if field.number != other.number or field.is_repeated != other.is_repeated or not same_type:
            found.append(field.full_name)
        if field.message_type and not same_type:
            found.append(field.full_name)
        elif field.message_type and field.message_type.full_name != ours.full_name:
            found += differences(field.message_type, other.message_type)
    return found


@pytest.mark.parametrize("name", OURS)
@pytest.mark.filterwarnings("ignore:label:DeprecationWarning")
def test_every_field_has_the_number_and_type_that_tensorflow_gives_it(name: str) -> None:
    assert differences(OURS[name].DESCRIPTOR, theirs(name)) == []


def test_every_data_type_has_tensorflows_number_and_name() -> None:
    from tensorflow.core.framework import types_pb2

    assert {name: types_pb2.DataType.Value(name) for name in wire.DataType} == wire.DataType
    import tensorflow as tf

    numbers = [number for name, number in wire.DataType.items() if name != "DT_INVALID"]
    shown = [wire.find_dtype_name(n) for n in numbers]
    assert shown == [tf.dtypes.as_dtype(n).name for n in numbers]


def test_messages_are_laid_out_as_in_servings_protos() -> None:
    request = wire.PredictRequest()
    request.model_spec.name = "m"
    request.model_spec.version.value = 7
    request.model_spec.signature_name = "s"
    request.inputs["x"].dtype = 1
    request.output_filter.append("y")
    assert request.SerializeToString() == (
        b"\x0a\x0a" + b"\x0a\x01m" + b"\x12\x02\x08\x07" + b"\x1a\x01s"
        b"\x12\x07" + b"\x0a\x01x" + b"\x12\x02\x08\x01" + b"\x1a\x01y"
    )

    log = wire.PredictionLog()
    log.predict_log.request.model_spec.name = "m"
    assert log.SerializeToString() == b"\x32\x07\x0a\x05\x0a\x03\x0a\x01m"


def test_serving_itself_reads_what_we_write() -> None:
    theirs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    log = wire.PredictionLog()
    log.predict_log.request.inputs["x"].float_val.append(1.5)
    read = theirs.PredictionLog.FromString(log.SerializeToString())
    assert list(read.predict_log.request.inputs["x"].float_val) == [1.5]


def run(code: str) -> str:
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_tensorflow_lives_in_one_process_with_wire() -> None:
    # In a pool of both, whichever came second could not be imported.
    import tensorflow as tf

    told = wire.TensorProto.FromString(tf.make_tensor_proto(1.5).SerializeToString()).float_val
    assert told == [1.5]


def test_wire_imports_protobuf_alone() -> None:
    code = (
        "import sys, servable_tensors.wire, servable_tensors.tfrecord\n"
        "print([m for m in ('grpc', 'gevent', 'numpy', 'tensorflow') if m in sys.modules])"
    )
    assert run(code) == "[]"
    # It starts in 25 ms of processor time, 19 of them protobuf's; whatever else came along adds up.
    code = (
        "import sys\nbefore = set(sys.modules)\nimport servable_tensors.wire\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(new - sys.stdlib_module_names))"
    )
    assert run(code) == "['google', 'servable_tensors']"


def test_the_crc_has_the_published_values_and_a_length_beyond_reason_is_not_believed() -> None:
    # RFC 3720, appendix B.4, and the catalogue of CRCs: "123456789".
    assert compute_crc32c(b"123456789") == 0xE3069283
    assert compute_crc32c(bytes(32)) == 0x8A9136AA
    length = struct.pack("<Q", 1 << 40)
    header = length + struct.pack("<I", mask_crc(compute_crc32c(length)))
    with pytest.raises(RecordError, match="record 0: 1099511627776 bytes long; at most 67108864"):
        list(read_records(io.BytesIO(header)))


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


@pytest.mark.parametrize(("content", "message"), [
    (FRAMED[:5], "record 0: the file ends inside the length"),
    (FRAMED[:-1], "record 1: the file ends inside the record"),
    (b"\1" + FRAMED[1:], "record 0: the length's CRC doesn't match"),
    (FRAMED[:12] + b"F" + FRAMED[13:], "record 0: the CRC doesn't match"),
])  # fmt: skip
def test_damage_names_the_record(content: bytes, message: str) -> None:
    with pytest.raises(RecordError, match=f"^{message}$"):
        list(read_records(io.BytesIO(content)))
