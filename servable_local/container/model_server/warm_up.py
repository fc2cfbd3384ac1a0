"""Warm-up records, replayed before the model server is ready.

`<version>/assets.extra/tf_serving_warmup_requests`: TFRecord of PredictionLog; one that
fails makes the model fail to load. Source: https://www.tensorflow.org/tfx/serving/saved_model_warmup
"""

from pathlib import Path

from google.protobuf.message import DecodeError

from servable_local.container.answer import HttpError
from servable_local.container.model_server import proto_tensors
from servable_local.container.model_server.runtime import LoadError, Servable
from servable_tensors import tfrecord, wire

PLACE = Path("assets.extra", "tf_serving_warmup_requests")
# tensorflow_serving/servables/tensorflow/saved_model_warmup_util.h
MOST_RECORDS = 1000


def replay(folder: Path, servable: Servable) -> int:
    """How many were computed. Raises `LoadError` for a file or a record that fails."""
    file = folder / PLACE
    if not file.is_file():
        return 0
    number = 0
    try:
        with file.open("rb") as opened:
            for record in tfrecord.read(opened):
                number += 1
                if number > MOST_RECORDS:
                    raise LoadError(f"{PLACE}: more than {MOST_RECORDS} records")
                _compute(wire.PredictionLog.FromString(record), servable)
    except (tfrecord.RecordError, DecodeError) as problem:
        raise LoadError(f"{PLACE}: {problem}") from None
    except HttpError as refusal:
        raise LoadError(f"{PLACE}: record {number}: {refusal.message}") from None
    return number


def _compute(log: "wire.PredictionLog", servable: Servable) -> None:
    if not log.HasField("predict_log"):
        raise HttpError(400, "only predict records are replayed on this machine")
    request = log.predict_log.request
    name = request.model_spec.signature_name or "serving_default"
    if name not in servable.signatures:
        raise HttpError(400, f'Serving signature key "{name}" not found.')
    signature = servable.signatures[name]
    if set(request.inputs) != set(signature.inputs):
        raise HttpError(400, f"inputs {sorted(request.inputs)}, not {sorted(signature.inputs)}")
    signature.compute(
        {key: proto_tensors.to_array(key, request.inputs[key]) for key in signature.inputs}
    )
