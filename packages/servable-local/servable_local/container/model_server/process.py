"""A forked model server process: loads, warms up, and serves until its end.

Warm-up records are in `<version>/assets.extra/tf_serving_warmup_requests`, a TFRecord file of
PredictionLog, and are replayed before the server is ready; one that fails makes the model fail
to load. Source: https://www.tensorflow.org/tfx/serving/saved_model_warmup
"""

import functools
import os
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import NoReturn

from google.protobuf.message import DecodeError

from servable_local.container.child_process import Events, exit_with_parent, log
from servable_local.container.faults import FaultFile
from servable_local.container.http_messages import HttpError
from servable_local.container.model_server import grpc_interface, rest
from servable_local.container.model_server.grpc_interface import GrpcInterface, compute_request
from servable_local.container.model_server.rest import RestInterface
from servable_local.container.model_server.runtime import (
    LoadedVersion,
    ModelLoadError,
    Servables,
    compute_batch,
)
from servable_local.container.plan import ServerPlan
from servable_tensors import tfrecord, wire

PLACE = Path("assets.extra", "tf_serving_warmup_requests")
# tensorflow_serving/servables/tensorflow/saved_model_warmup_util.h
MOST_RECORDS = 1000
# TensorFlow Serving replays these too; here they are left out, so that the model loads.
_NOT_HERE = ("classify_log", "regress_log", "multi_inference_log")


def replay_warmup(
    folder: Path, servable: LoadedVersion, *, max_batch_rows: int | None = None
) -> int:
    """Compute the warm-up records, and return how many. Raises `ModelLoadError` if one fails.

    `max_batch_rows`: with batching, through which TensorFlow Serving replays records too.
    """
    file = folder / PLACE
    if not file.is_file():
        return 0
    number = 0
    try:
        with file.open("rb") as opened:
            for record in tfrecord.read_records(opened):
                number += 1
                if number > MOST_RECORDS:
                    raise ModelLoadError(f"{PLACE} has more than {MOST_RECORDS} records")
                _compute_record(wire.PredictionLog.FromString(record), servable, max_batch_rows)
    except (tfrecord.RecordError, DecodeError) as problem:
        raise ModelLoadError(f"{PLACE}: {problem}") from None
    except HttpError as refusal:
        raise ModelLoadError(f"{PLACE}: record {number}: {refusal.message}") from None
    return number


def _compute_record(
    log: "wire.PredictionLog", servable: LoadedVersion, max_batch_rows: int | None
) -> None:
    if log.WhichOneof("log_type") in _NOT_HERE:
        return
    if not log.HasField("predict_log"):
        no_other = "the local container replays no other kind"
        raise HttpError(f"the record isn't a predict record; {no_other}")
    compute = functools.partial(compute_batch, max_rows=max_batch_rows)
    compute_request(log.predict_log.request, servable, compute)


def run_model_server(plan: ServerPlan, number: int, events: Events, *, parent_pid: int) -> NoReturn:
    """Load, warm up, then listen, in a forked child: only a ready server is reachable."""
    exit_with_parent(parent_pid)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    try:
        servables = _load_servables(plan)
        # gRPC first: once REST responds, gRPC responds too.
        server = grpc_interface.serve_grpc(GrpcInterface(servables), plan.port)
        rest.serve_rest(RestInterface(servables).respond, plan.port + 1)
        events.report(ready=number, pid=os.getpid())
        server.wait_for_termination()
    except ModelLoadError as error:
        # An event is one line of less than a page, so that those of several processes do not mix.
        reason = str(error)[:2000]
        events.report(number=number, error=f"TensorFlow can't load the model: {reason}")
    except OSError as error:
        events.report(number=number, error=f"the model server can't listen on its port: {error}")
    except BaseException:
        traceback.print_exc()
        events.report(number=number, error="the model server failed; see the log")
    finally:
        os._exit(1)


def _load_servables(plan: ServerPlan) -> Servables:
    loaded: dict[str, dict[int, LoadedVersion]] = {}
    max_batch_rows = plan.batching.max_batch_size if plan.batching else None
    threads = (plan.inter_op_threads, plan.intra_op_threads)
    for name, versions in plan.models.items():
        for version, folder in versions.items():
            began = time.monotonic()
            try:
                servable = LoadedVersion(folder, *threads, batching=plan.batching)
                records = replay_warmup(folder, servable, max_batch_rows=max_batch_rows)
            except ModelLoadError as error:
                raise ModelLoadError(f"model {name} version {version}: {error}") from None
            loaded.setdefault(name, {})[version] = servable
            took = f"loaded in {time.monotonic() - began:.2f} s"
            log(f"model {name} version {version}: {took}, {records} warm-up records replayed")
    faults = FaultFile(plan.faults)
    return Servables(models=loaded, faults=faults, max_batch_rows=max_batch_rows)
