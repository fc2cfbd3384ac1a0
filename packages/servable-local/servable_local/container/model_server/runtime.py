"""SavedModels in sessions, loaded as by TensorFlow Serving, and the computation of signatures."""

import contextlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.client import session as sessions
from tensorflow.python.framework import (
    dtypes,
    errors_impl,
    graph_util_impl,
    importer,
    ops,
    versions,
)
from tensorflow.python.ops import batch_ops
from tensorflow.python.saved_model import loader_impl
from tensorflow.python.util import deprecation

from servable_local.container.faults import FaultFile
from servable_local.container.http_messages import HttpError
from servable_local.container.settings import BatchingPlan
from servable_tensors.tensors import Array

Arrays = dict[str, Array]

# HTTP status by TensorFlow error code.
# Source: ToHTTPStatusCode in tensorflow_serving/model_servers/http_server.cc
STATUSES = {1: 499, 3: 400, 4: 504, 5: 404, 6: 409, 7: 403, 8: 429, 9: 400, 10: 409, 11: 400}
STATUSES |= {12: 501, 13: 500, 14: 503}


class ModelLoadError(Exception):
    """TensorFlow can't load a SavedModel. `str()` is TensorFlow's reason, on one line."""


# What TensorFlow Serving links besides TensorFlow: modules that register operations when imported.
# Source: SUPPORTED_TENSORFLOW_OPS in tensorflow_serving/model_servers/BUILD, read 2026-11-22
ADDED = ("tensorflow_text", "tensorflow_decision_forests")
UNREGISTERED = "Op type not registered"


def _explain_failure(failure: Exception) -> str:
    """Return TensorFlow's reason on one line, with the fix for an unregistered operation."""
    reason = " ".join(str(failure).split())
    if UNREGISTERED not in reason:
        return reason
    return (
        f"{reason.partition(' in binary')[0]} in this computer's TensorFlow {versions.VERSION}; the image "
        f"may have it: TensorFlow Serving links {' and '.join(ADDED)}. Install the right one for "
        "this TensorFlow, or run the image (--docker)"
    )


class LoadedSignature:
    """A signature of a model: names and types of its inputs, and the computation."""

    def __init__(self, definition: Any, run: Callable[..., Sequence[Any]]) -> None:
        self.definition = definition
        """The SavedModel's own SignatureDef."""
        self.method: str = definition.method_name
        types = {name: dtypes.as_dtype(info.dtype) for name, info in definition.inputs.items()}
        self.inputs: dict[str, str] = {name: types[name].name for name in sorted(types)}
        """Input name -> TensorFlow's name of its type ("int64", "float32", "string")."""
        self.outputs: list[str] = sorted(definition.outputs)
        self._types = [types[name].as_numpy_dtype for name in self.inputs]
        self._run = run

    def compute(self, arrays: Mapping[str, Array]) -> Arrays:
        """Compute the outputs. Raises `HttpError` if TensorFlow can't, as for a wrong shape."""
        feed = [
            np.asarray(arrays[name], dtype=dtype)
            for name, dtype in zip(self.inputs, self._types, strict=True)
        ]
        try:
            values = self._run(*feed)
        except errors_impl.OpError as failure:
            raise HttpError(str(failure.message), STATUSES.get(failure.error_code, 500)) from None
        except (ValueError, TypeError) as failure:
            raise HttpError(str(failure)) from None
        # A lone string comes as bytes; NumPy alone would drop its trailing zeros.
        return {
            name: np.asarray(value, object if isinstance(value, bytes) else None)
            for name, value in zip(self.outputs, values, strict=True)
        }


class LoadedVersion:
    """A loaded version of a model. Threads of 0 mean a pool of the number of vCPUs."""

    def __init__(
        self,
        folder: Path,
        inter_op_threads: int = 0,
        intra_op_threads: int = 0,
        batching: BatchingPlan | None = None,
    ) -> None:
        options = config_pb2.ConfigProto(
            inter_op_parallelism_threads=inter_op_threads,
            intra_op_parallelism_threads=intra_op_threads,
        )
        try:
            try:
                graph, session, loaded = _load_session(folder, options)
            except errors_impl.NotFoundError as failure:
                if UNREGISTERED not in str(failure):
                    raise
                for name in ADDED:
                    if importlib.util.find_spec(name) is not None:
                        # Built for another TensorFlow they raise whatever its loader raises.
                        with contextlib.suppress(Exception):
                            importlib.import_module(name)
                graph, session, loaded = _load_session(folder, options)
            with graph.as_default():
                self.signatures = {
                    name: LoadedSignature(one, _build_callable(session, one, batching))
                    for name, one in loaded.signature_def.items()
                    if not name.startswith("__") and one.outputs
                }
        except (OSError, ValueError, KeyError, RuntimeError, errors_impl.OpError) as failure:
            raise ModelLoadError(_explain_failure(failure)) from None
        graph.finalize()


def _load_session(folder: Path, options: Any) -> tuple[Any, Any, Any]:
    """Return (graph, session, the MetaGraphDef). Raises what TensorFlow raises."""
    graph = ops.Graph()
    with graph.as_default():
        session = sessions.Session(graph=graph, config=options)
        with deprecation.silence():  # the warning is meant for the caller's author
            return graph, session, loader_impl.load(session, ["serve"], str(folder))


def _build_callable(
    session: Any, definition: Any, batching: BatchingPlan | None
) -> Callable[..., Sequence[Any]]:
    inputs = [definition.inputs[name].name for name in sorted(definition.inputs)]
    outputs = [definition.outputs[name].name for name in sorted(definition.outputs)]
    # Without inputs there is nothing to batch by.
    if batching is not None and inputs:
        outputs = _add_batching(session.graph, inputs, outputs, batching)
    options = config_pb2.CallableOptions(feed=inputs, fetch=outputs)
    # Not make_callable: that checks shapes in Python, before the model, in words of its own.
    run: Callable[..., Sequence[Any]] = session._make_callable_from_options(options)
    return run


def _add_batching(
    graph: Any, inputs: list[str], outputs: list[str], batching: BatchingPlan
) -> list[str]:
    """Return the names of the outputs behind TensorFlow Serving's batching kernel.

    The kernel batches calls of a function: the signature's part of the graph becomes its
    body. Variables and tables are found again by their shared names, in the same session.
    """
    nodes = [name.split(":")[0] for name in outputs]
    with deprecation.silence():
        part = graph_util_impl.extract_sub_graph(graph.as_graph_def(), nodes)

    def import_body(*tensors: Any) -> Any:
        replaced = dict(zip(inputs, tensors, strict=True))
        return importer.import_graph_def(part, input_map=replaced, return_elements=outputs, name="")

    kernel = batch_ops.batch_function(
        num_batch_threads=batching.batch_threads,
        max_batch_size=batching.max_batch_size,
        batch_timeout_micros=batching.timeout_micros,
        max_enqueued_batches=batching.max_enqueued_batches,
    )
    batched = kernel(import_body)(*(graph.get_tensor_by_name(name) for name in inputs))
    return [tensor.name for tensor in batched]


@dataclass(frozen=True, kw_only=True)
class Servables:
    """The loaded versions of every model.

    `max_batch_rows`: the largest request while batching is on, otherwise None.
    """

    models: Mapping[str, Mapping[int, LoadedVersion]]
    faults: FaultFile
    max_batch_rows: int | None

    def list_versions(self, model: str) -> list[int]:
        """Return the loaded versions of `model`, newest first; none for a missing model."""
        return sorted(self.models.get(model, {}), reverse=True)

    def find_version(self, model: str, version: int | None) -> tuple[int, LoadedVersion]:
        """Return the requested version, or the newest. Raises `HttpError` (404)."""
        versions = self.models.get(model, {})
        number = max(versions, default=0) if version is None else version
        if number in versions:
            return number, versions[number]
        servable = f"Latest({model})" if version is None else f"Specific({model}, {version})"
        raise HttpError(f"Servable not found for request: {servable}", 404)

    def compute(self, signature: LoadedSignature, arrays: Mapping[str, Array]) -> Arrays:
        """Compute a signature's outputs, with injected faults. Raises `HttpError`."""
        self.faults.apply_faults()
        return compute_batch(signature, arrays, self.max_batch_rows)


def compute_batch(
    signature: LoadedSignature, arrays: Mapping[str, Array], max_rows: int | None
) -> Arrays:
    """Compute a signature's outputs.

    With `max_rows`, raises `HttpError` where TensorFlow Serving's batching session would, with its
    messages.
    """
    problem = None
    if max_rows is None:
        pass
    elif any(array.ndim == 0 for array in arrays.values()):
        problem = "Batching session Run() input tensors must have at least one dimension."
    elif len(sizes := {len(array) for array in arrays.values()}) > 1:
        problem = "Batching session Run() input tensors must have equal 0-dimension size."
    elif (rows := max(sizes, default=0)) > max_rows:
        problem = f"Task size {rows} is larger than maximum input batch size {max_rows}"
    if problem:
        raise HttpError(problem)
    return signature.compute(arrays)
