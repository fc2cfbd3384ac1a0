"""Warm-up records are replayed before the container is ready; a bad one keeps it from that."""

from collections.abc import Callable
from pathlib import Path

import pytest

from local.endpoint.launch import LaunchError, launch
from serving import tfrecord, wire
from tests.conformance import archives

PLACE = "numbers/1/assets.extra/tf_serving_warmup_requests"
Launched = Callable[[bytes], str]


@pytest.fixture(scope="session")
def log_with(start: object, folder: Path) -> Launched:
    """log_with(file): what the container says when a version has this warm-up file."""

    def launched(content: bytes) -> str:
        folders = {"numbers/1": archives.MODELS / "numbers" / "1"}
        archive = archives.pack(folder / "warm.tar.gz", {PLACE: content}, folders)
        log = folder / "warm.log"
        log.unlink(missing_ok=True)
        launch(archive, {}, log=log).close()
        return log.read_text()

    return launched


def _record(column: str = "x") -> bytes:
    log = wire.PredictionLog()
    log.predict_log.request.model_spec.name = "numbers"
    tensor = log.predict_log.request.inputs[column]
    tensor.dtype = wire.DataType["DT_FLOAT"]
    for size in (1, 2):
        tensor.tensor_shape.dim.add(size=size)
    tensor.float_val.extend([1.0, 2.0])
    data: bytes = log.SerializeToString()
    return data


def test_every_record_is_replayed(log_with: Launched) -> None:
    assert "3 warm-up records replayed" in log_with(tfrecord.frame([_record()] * 3))


def test_a_record_that_fails_keeps_the_model_from_loading(log_with: Launched) -> None:
    with pytest.raises(LaunchError) as refusal:
        log_with(tfrecord.frame([_record(), _record("y")]))
    assert "record 2: inputs ['y'], not ['x']" in str(refusal.value)
