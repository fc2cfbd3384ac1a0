"""Reads one version of a SavedModel, and refuses what TensorFlow Serving would not serve."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from model_packaging.refusal import PackagingError
from model_packaging.saved_model.graph_file import MetaGraph, meta_graphs
from model_packaging.saved_model.info import SavedModelInfo, Signature, TensorSpec
from model_packaging.saved_model.variables import variable_bytes
from servable_tensors import wire

# TensorFlow Serving loads the graph with exactly these tags.
SERVE = frozenset({"serve"})
# tensorflow_serving/servables/tensorflow/predict_util.cc answers any other method with an error.
METHODS = frozenset(f"tensorflow/serving/{name}" for name in ("predict", "classify", "regress"))
WARM_UP = Path("assets.extra", "tf_serving_warmup_requests")


def read(version: Path) -> SavedModelInfo:
    """What the version folder holds; nothing in it is executed. Raises `PackagingError`, OSError."""
    file = version / "saved_model.pb"
    if not file.is_file():
        raise PackagingError(version, "holds no saved_model.pb", "export the SavedModel into it")
    graph = _served(file, meta_graphs(file))
    message = graph.message
    signatures = {
        name: _signature(signature)
        for name, signature in sorted(message.signature_def.items())
        if signature.method_name in METHODS and signature.outputs
    }
    if not signatures:
        remedy = "export it with signatures, as Keras' model.export() does"
        raise PackagingError(file, "has no signature that a request could call", remedy)
    return SavedModelInfo(
        folder=version,
        tags=SERVE,
        tensorflow_version=message.meta_info_def.tensorflow_version,
        signatures=signatures,
        assets=_assets(version, message),
        has_variables=graph.has_variables,
        variable_bytes=variable_bytes(version, needed=graph.has_variables),
        has_warm_up=(version / WARM_UP).is_file(),
    )


def _served(file: Path, graphs: list[MetaGraph]) -> MetaGraph:
    tags = [frozenset(graph.message.meta_info_def.tags) for graph in graphs]
    if SERVE not in tags:
        given = ", ".join("+".join(sorted(some)) or "nothing" for some in tags)
        problem = f"has no graph tagged with serve alone; its graphs are tagged {given}"
        raise PackagingError(file, problem, "export it for serving, with the tag serve")
    return graphs[tags.index(SERVE)]


def _assets(version: Path, message: Any) -> tuple[str, ...]:
    """The files that the graph reads when it starts, all of them there."""
    names = sorted({asset.filename for asset in message.asset_file_def})
    for name in names:
        if not (version / "assets" / name).is_file():
            problem = "does not exist, but the graph reads it when it starts"
            remedy = "export the SavedModel again, or copy it again"
            raise PackagingError(version / "assets" / name, problem, remedy)
    return tuple(names)


def _signature(signature: Any) -> Signature:
    return Signature(
        inputs=_specs(signature.inputs),
        outputs=_specs(signature.outputs),
        method=signature.method_name,
    )


def _specs(tensors: Mapping[str, Any]) -> dict[str, TensorSpec]:
    return {name: _spec(tensor) for name, tensor in sorted(tensors.items())}


def _spec(tensor: Any) -> TensorSpec:
    shape = tensor.tensor_shape
    sizes = tuple(None if dim.size < 0 else dim.size for dim in shape.dim)
    return TensorSpec(
        name=tensor.name or tensor.coo_sparse.values_tensor_name,
        dtype=wire.dtype_name(tensor.dtype),
        shape=None if shape.unknown_rank else sizes,
    )
