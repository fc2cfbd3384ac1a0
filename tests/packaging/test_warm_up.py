"""Warm-up requests: JSON becomes TensorFlow's tensors; files are written, and checked when already there."""

import json
from pathlib import Path
from typing import Any

import pytest

from model_packaging.requests.json_requests import RequestValueError, build_tensor
from model_packaging.requests.known_requests import build_warm_up, check_warm_up
from model_packaging.requests.known_requests import read_golden_request as read_golden
from model_packaging.saved_model.reading import SavedModelInfo, TensorInfo, read
from servable_tensors import tfrecord, wire
from tests.packaging.conftest import refusal


def spec(dtype: str, *shape: int | None) -> TensorInfo:
    return TensorInfo(name="x:0", dtype=dtype, shape=shape)


def as_array(message: Any) -> Any:
    import tensorflow as tf
    from tensorflow.core.framework.tensor_pb2 import TensorProto

    return tf.make_ndarray(TensorProto.FromString(message.SerializeToString()))


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def test_numbers_arrive_in_every_type_and_bfloat16_as_tensorflow_rounds() -> None:
    for dtype in [*INTEGERS, "float16", "float32", "float64", "bfloat16"]:
        shown = as_array(build_tensor([[1, 2], [3, 100]], spec(dtype, None, 2))).tolist()
        assert shown == [[1, 2], [3, 100]]
    for number in [0.1, -1.00390625, 1.01171875, 3.4e38, -0.0, float("nan")]:
        import tensorflow as tf

        given = as_array(build_tensor(number, spec("bfloat16"))).tobytes()
        assert given == tf.constant(number, tf.float32).numpy().astype("bfloat16").tobytes()


def test_both_ends_of_int64_arrive_and_beyond_them_is_refused() -> None:
    for number in [-(2**63), 2**63 - 1]:
        assert as_array(build_tensor([number], spec("int64", None))).tolist() == [number]
    for number in [-(2**63) - 1, 2**63]:
        with pytest.raises(RequestValueError, match="is out of range for int64"):
            build_tensor([number], spec("int64", None))


def test_booleans_strings_numbers_and_lists_arrive_with_their_shape() -> None:
    assert as_array(build_tensor([True, False], spec("bool", 2))).tolist() == [True, False]
    given = build_tensor(["é", {"b64": "//4="}], spec("string", None))
    assert as_array(given).tolist() == ["é".encode(), b"\xff\xfe"]
    assert as_array(build_tensor(2, spec("int32"))).shape == ()
    unknown = TensorInfo(name="x:0", dtype="int32", shape=None)
    assert as_array(build_tensor([[[1]]], unknown)).shape == (1, 1, 1)
    assert as_array(build_tensor([], spec("int32", None))).shape == (0,)


def test_bad_base64_half_a_character_ragged_lists_and_complex_numbers_are_refused() -> None:
    for bad in ["?", "é"]:
        with pytest.raises(RequestValueError, match='contains invalid base64 in "b64"'):
            build_tensor([{"b64": bad}], spec("string", None))
    with pytest.raises(RequestValueError, match="an unpaired surrogate; strings must be UTF-8"):
        build_tensor(["\ud800"], spec("string", None))
    with pytest.raises(RequestValueError, match="is complex64, which JSON can't represent"):
        build_tensor([1], spec("complex64", None))
    for value in [[1, [2]], [[1], 2], [[1], [2, 3]]]:
        unknown = TensorInfo(name="x:0", dtype="int32", shape=None)
        with pytest.raises(RequestValueError, match="is ragged|is nested deeper"):
            build_tensor(value, unknown)


RANKER = Path(__file__).parents[2] / "examples" / "ranker"
ROWS, COLUMNS = (RANKER / "golden" / f"request-{form}.json" for form in ("rows", "columnar"))


@pytest.fixture(scope="module")
def info() -> SavedModelInfo:
    return read(RANKER / "model" / "1")


def golden(*files: Path) -> dict[Path, Any]:
    return {file: json.loads(file.read_text()) for file in files}


def written(tmp_path: Path, content: bytes) -> Path:
    (tmp_path / "requests").write_bytes(content)
    return tmp_path / "requests"


def arrays(file: Path) -> list[dict[str, Any]]:
    """The inputs of each record, read by TensorFlow's reader and made arrays by TensorFlow."""
    import tensorflow as tf

    found = []
    for record in tf.data.TFRecordDataset(str(file)):
        inputs = wire.PredictionLog.FromString(record.numpy()).predict_log.request.inputs
        found.append({key: as_array(value) for key, value in inputs.items()})
    return found


@pytest.mark.parametrize("form", ["rows", "columnar"])
def test_the_model_gives_the_golden_answers_to_the_requests_written(
    info: SavedModelInfo, tmp_path: Path, form: str
) -> None:
    import tensorflow as tf

    file = written(tmp_path, build_warm_up("ranker", golden(ROWS, COLUMNS), info))
    inputs = arrays(file)[["rows", "columnar"].index(form)]
    serve = tf.saved_model.load(str(info.folder)).signatures["serving_default"]
    answer = serve(**{key: tf.constant(value) for key, value in inputs.items()})["prob"].numpy()
    parsed = json.loads((RANKER / "golden" / f"answer-{form}.json").read_text())
    assert answer.tolist() == pytest.approx(next(iter(parsed.values())), abs=1e-6)


def test_equal_requests_give_equal_bytes_that_pass(info: SavedModelInfo, tmp_path: Path) -> None:
    first, second = (build_warm_up("ranker", golden(ROWS, COLUMNS), info) for _ in range(2))
    assert first == second
    assert check_warm_up(written(tmp_path, first), info) == 2


def test_serving_itself_reads_what_is_written(info: SavedModelInfo) -> None:
    theirs = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    log = theirs.PredictionLog.FromString(build_warm_up("ranker", golden(ROWS), info)[12:-4])
    assert sorted(log.predict_log.request.inputs) == ["feat_ids", "feat_vals"]


def test_a_thousand_requests_are_written_and_no_more(info: SavedModelInfo, tmp_path: Path) -> None:
    rows = {"instances": [{"feat_ids": [0] * 39, "feat_vals": [0.0] * 39}]}
    many = {Path(str(number)): rows for number in range(1000)}
    assert check_warm_up(written(tmp_path, build_warm_up("ranker", many, info)), info) == 1000
    said = refusal(build_warm_up, "ranker", {**many, Path("one more"): rows}, info)
    assert "would contain 1001 warm-up requests; at most 1000 are allowed" in said


ROW = {"feat_ids": [0] * 39, "feat_vals": [0.5] * 39}


def test_a_request_that_the_model_would_refuse_is_refused(info: SavedModelInfo) -> None:
    """tests/packaging/test_known_requests.py has more of them."""
    cases: list[tuple[Any, str]] = [
        ({"instances": [[1]]}, "names no inputs; the signature expects feat_ids, feat_vals"),
        ({"instances": [ROW, {"feat_ids": []}]}, "has rows with different inputs"),
        ({"instances": [ROW], "signature_name": ["train"]},
         "names the signature ['train']; the model has serving_default"),
        ({"instances": [{**ROW, "feat_ids": [True] * 39}]},
         "feat_ids holds True; the signature expects int64"),
        ({"instances": [{**ROW, "feat_vals": [None] * 39}]},
         "feat_vals holds None; the signature expects float32"),
        ({"inputs": {"feat_ids": [[0] * 39] * 2, "feat_vals": [[0.5] * 39, [0.5] * 3]}},
         "feat_vals is ragged: 3 where other rows have 39"),
    ]  # fmt: skip
    for request, problem in cases:
        said = refusal(build_warm_up, "ranker", {Path("golden/a.json"): request}, info)
        assert said == f"golden/a.json: the request {problem}; correct the request"


def test_a_number_out_of_range_and_a_request_nested_too_deeply_are_refused(
    info: SavedModelInfo, tmp_path: Path
) -> None:
    request = {"instances": [{**ROW, "feat_vals": [1e39] * 39}]}
    said = refusal(build_warm_up, "ranker", {Path("a.json"): request}, info)
    assert "feat_vals contains a number that is out of range for float32" in said
    (tmp_path / "deep.json").write_text("[" * 100_000)
    said = refusal(read_golden, tmp_path / "deep.json")
    assert "deep.json: is nested too deeply to be read; write a file with one" in said


def log(**changes: Any) -> bytes:
    """One record as others write them, with the model, the signature or the inputs changed."""
    message = wire.PredictionLog()
    request = message.predict_log.request
    request.model_spec.name = changes.get("model", "ranker")
    request.model_spec.signature_name = changes.get("signature", "")
    for name, dtype in changes.get("inputs", {"feat_ids": 9, "feat_vals": 1}).items():
        request.inputs[name].dtype = dtype
        for size in (1, changes.get("columns", 39)):
            request.inputs[name].tensor_shape.dim.add(size=size)
    content: bytes = message.SerializeToString()
    return content


AGAIN = "write it again for this model"
FRAMED = tfrecord.frame_records([log(), log()])


@pytest.mark.parametrize(("content", "message"), [
    (FRAMED[:-2], "is damaged: record 1: the file ends inside the record; write it again"),
    (FRAMED[:-6] + b"xx" + FRAMED[-4:],
     "is damaged: record 1: the CRC doesn't match; write it again"),
    (tfrecord.frame_records([log(), b"\xff\xff"]),
     "record 1 is not a PredictionLog; write PredictionLog records"),
    (tfrecord.frame_records([b""]), f"record 0 contains no request; {AGAIN}"),
    (tfrecord.frame_records([log(signature="train")]),
     f"record 0 names the signature 'train'; the model has serving_default; {AGAIN}"),
    (tfrecord.frame_records([log(inputs={"x": 1})]),
     f"record 0 gives x; the signature expects feat_ids, feat_vals; {AGAIN}"),
    (tfrecord.frame_records([log(inputs={"feat_ids": 3, "feat_vals": 1})]),
     f"record 0 gives feat_ids as int32; the signature expects int64; {AGAIN}"),
    (tfrecord.frame_records([log(columns=38)]),
     "record 0 gives feat_ids that has shape [1, 38]; the signature expects [any, 39]; " + AGAIN),
    (tfrecord.frame_records([log()] * 1001),
     "contains more than 1000 records; remove some, or the model doesn't load"),
], ids=lambda part: part if isinstance(part, str) else "")  # fmt: skip
def test_a_file_that_would_stop_the_model_from_loading_is_refused(
    info: SavedModelInfo, tmp_path: Path, content: bytes, message: str
) -> None:
    file = written(tmp_path, content)
    assert refusal(check_warm_up, file, info) == f"{file}: {message}"


def test_a_thousand_records_of_any_kind_pass(info: SavedModelInfo, tmp_path: Path) -> None:
    assert check_warm_up(written(tmp_path, tfrecord.frame_records([log()] * 1000)), info) == 1000
    for record in (wire.PredictionLog(multi_inference_log=b"").SerializeToString(), log(model="o")):
        file = written(tmp_path, tfrecord.frame_records([record]))
        assert check_warm_up(file, info) == 1
