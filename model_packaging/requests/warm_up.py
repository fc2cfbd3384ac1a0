"""The requests that the model server answers for itself before it takes any from outside.

`<version>/assets.extra/tf_serving_warmup_requests`: a TFRecord file of PredictionLog.
A record that fails makes the whole model fail to load, so that each is checked here.
Source: https://www.tensorflow.org/tfx/serving/saved_model_warmup
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from model_packaging.beside import write_beside
from model_packaging.refusal import PackagingError
from model_packaging.requests.json_requests import RequestValueError, predict_request
from model_packaging.requests.known_requests import (
    Shapes,
    check_batch,
    check_examples,
    check_inputs,
    parsed_json,
    shapes_of,
)
from model_packaging.saved_model.reading import WARM_UP, SavedModelInfo, read
from model_packaging.servable import Servable
from servable_tensors import tfrecord, wire

# tensorflow_serving/servables/tensorflow/saved_model_warmup_util.h: with more, loading fails.
MOST_RECORDS = 1000


def write_warm_up(
    model: str,
    requests: Mapping[Path, Any],
    info: SavedModelInfo,
    *,
    max_batch_size: int | None = None,
) -> bytes:
    """The file's content: the same requests give the same bytes. Raises `PackagingError`.

    `requests`: each golden request's file and the JSON in it, by rows or by columns.
    `max_batch_size`: as for `check_warm_up`.
    """
    if len(requests) > MOST_RECORDS:
        problem = f"would hold {len(requests)} warm-up requests; at most {MOST_RECORDS} are allowed"
        raise PackagingError(info.folder, problem, "leave some out: a few of each size are enough")
    records = []
    for file, request in requests.items():
        log = wire.PredictionLog()
        try:
            message = predict_request(request, info, model=model)
            check_batch(shapes_of(message), max_batch_size)
            log.predict_log.request.CopyFrom(message)
        except RequestValueError as bad:
            raise PackagingError(file, f"the request {bad}", "correct the request") from None
        # Deterministic: the order of a map's entries is otherwise protobuf's own.
        records.append(log.SerializeToString(deterministic=True))
    return tfrecord.frame(records)


def prepared(servable: Servable, requests: Sequence[Path], *, folder: Path) -> Servable:
    """The servable with warm-up records for each of its versions. Raises `PackagingError`.

    Written below `folder`, named by their content. A request that another version's
    signature does not take is refused, as that version would not load.
    """
    bodies = {file: golden(file) for file in requests}
    files = {
        number: write_warm_up(servable.name, bodies, read(version))
        for number, version in servable.versions().items()
    }
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()
    target = folder / digest
    for number, content in files.items():
        file = target / str(number) / WARM_UP.name
        if not file.is_file():
            write_beside(file, content)
    return replace(servable, warm_up=target)


def golden(file: Path) -> Any:
    """The request body in a file. Raises `PackagingError`."""
    try:
        return parsed_json(file.read_bytes())
    except OSError as error:
        raise PackagingError(
            file, f"cannot be read: {error.strerror}", "name a golden request"
        ) from None
    except RequestValueError as bad:
        raise PackagingError(file, str(bad), "write one request body") from None


def check_warm_up(file: Path, info: SavedModelInfo, *, max_batch_size: int | None = None) -> int:
    """Number of records of a file that is already there. Raises `PackagingError`, OSError.

    `max_batch_size`: of server-side batching, through which the records go too; None: it is off.
    """
    count = 0
    try:
        with file.open("rb") as opened:
            for count, record in enumerate(tfrecord.read(opened), start=1):
                if count > MOST_RECORDS:
                    problem = f"holds more than {MOST_RECORDS} records"
                    raise PackagingError(file, problem, "leave some out: the model would not load")
                log = wire.PredictionLog.FromString(record)
                check_batch(_checked(log, info), max_batch_size)
    except tfrecord.RecordError as bad:
        raise PackagingError(file, f"is damaged: {bad}", "write it again") from None
    except DecodeError:
        problem = f"record {count - 1} is not a PredictionLog"
        raise PackagingError(file, problem, "write PredictionLog records") from None
    except RequestValueError as bad:
        raise PackagingError(
            file, f"record {count - 1} {bad}", "write it again for this model"
        ) from None
    return count


def _checked(log: Any, info: SavedModelInfo) -> Shapes:
    """The shapes of its inputs, as far as they are known. Raises `RequestValueError`."""
    kind = log.WhichOneof("log_type")
    if kind is None:
        raise RequestValueError("holds no request")
    if kind == "predict_log":
        # Its name is not compared: every record goes to the model that is loaded.
        return check_inputs(log.predict_log.request, info)
    if kind in ("classify_log", "regress_log"):
        return check_examples(getattr(log, kind).request, info, kind.removesuffix("_log"))
    if kind != "multi_inference_log":
        raise RequestValueError(f"is a {kind}, which TensorFlow Serving does not replay")
    return {}  # several requests in one: they are not read here
