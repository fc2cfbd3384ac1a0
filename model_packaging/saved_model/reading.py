"""Finds and reads the versions of a SavedModel; rejects what can't be served."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model_packaging.refusal import PackagingError
from model_packaging.saved_model.graph_file import MetaGraph, read_meta_graphs, reject_pointer
from model_packaging.saved_model.variables import compute_variable_bytes
from servable_tensors import wire

# The signature that TensorFlow Serving calls when a request names none.
DEFAULT_SIGNATURE = "serving_default"


@dataclass(frozen=True, kw_only=True)
class TensorInfo:
    """One input or output of a signature."""

    name: str
    """The tensor in the graph, "serving_default_x:0"; requests use its key in the signature."""
    dtype: str
    """As TensorFlow and NumPy write it: "float32", "string"."""
    shape: tuple[int | None, ...] | None
    """None instead of a size that requests may choose; None alone if the rank is unknown."""


@dataclass(frozen=True, kw_only=True)
class SignatureInfo:
    """A function that requests can call."""

    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]
    method: str
    """"tensorflow/serving/predict", or classify or regress."""
    defaults: tuple[str, ...] = ()
    """Inputs that a PredictRequest may leave out; JSON may not."""


@dataclass(frozen=True, kw_only=True)
class SavedModelInfo:
    """One version of a SavedModel, as read from its files."""

    folder: Path
    tags: frozenset[str]
    tensorflow_version: str
    """Version of the TensorFlow that wrote it; "" if it isn't stated."""
    signatures: Mapping[str, SignatureInfo]
    """The callable ones, by name."""
    assets: tuple[str, ...]
    """File names under assets/, sorted."""
    has_variables: bool
    """Whether the graph has variables; a frozen graph has none and needs no checkpoint."""
    variable_bytes: int
    """Size of the variables' data files on disk."""
    has_warm_up: bool
    """Whether assets.extra/tf_serving_warmup_requests exists; `check_warm_up` reads it."""


# TensorFlow Serving loads the graph with exactly these tags.
SERVE = frozenset({"serve"})
# tensorflow_serving/servables/tensorflow/predict_util.cc answers any other method with an error.
METHODS = frozenset(f"tensorflow/serving/{name}" for name in ("predict", "classify", "regress"))
WARM_UP = Path("assets.extra", "tf_serving_warmup_requests")
_MOST_SHOWN = 5  # of the tags in a message
# Files that people provide instead of a SavedModel, and how to convert them.
_KERAS = ("a Keras file", "keras.models.load_model(it).export")
_SAVE_1 = "tf.compat.v1.saved_model.simple_save"
_OTHER_FORMS = {
    **dict.fromkeys((".h5", ".hdf5", ".keras"), _KERAS),
    ".index": ("a checkpoint", "restore it into its model, and tf.saved_model.save"),
    ".meta": ("a TensorFlow 1 checkpoint", f"restore it, and {_SAVE_1}"),
    ".pbtxt": ("a graph in text format", "tf.saved_model.load it, and tf.saved_model.save"),
    ".pb": ("a graph without signatures", f"import it, and {_SAVE_1}"),
    ".tflite": ("a TensorFlow Lite model", "take the model before its conversion, and export"),
    ".onnx": ("an ONNX model", "convert it, with onnx2tf for example,"),
    ".gz": ("an archive", "tar -xzf"),
}


def list_versions(folder: Path) -> list[Path]:
    """Return the version folders, lowest first. Raises `PackagingError` if there are none.

    The container only loads `<version>/saved_model.pb` whose version is all digits, and otherwise waits.
    """
    if not folder.is_dir():
        problem = f"the SavedModel folder {'is a file' if folder.exists() else 'does not exist'}"
        raise PackagingError(folder, problem, "use a folder that contains version folders")
    inside = sorted(path for path in folder.iterdir() if path.is_dir())
    numbered = [path for path in inside if path.name.isascii() and path.name.isdigit()]
    if not numbered:
        problem = "has no version folder named with digits only"
        raise PackagingError(folder, problem, _suggest_export(folder))
    numbered.sort(key=lambda path: int(path.name))
    for version in numbered:
        if not (version / "saved_model.pb").is_file():
            raise _explain_missing_graph(version)
    return numbered


def read(version: Path) -> SavedModelInfo:
    """Read the version folder without executing anything in it. Raises `PackagingError`, OSError."""
    file = version / "saved_model.pb"
    if not file.is_file():
        raise _explain_missing_graph(version)
    graph = select_served_graph(file, read_meta_graphs(file))
    message = graph.message
    signatures = {}
    for name, signature in sorted(message.signature_def.items()):
        # A sparse input has no name of its own that a request could feed.
        dense = all(tensor.name for tensor in signature.inputs.values())
        if signature.method_name in METHODS and signature.outputs and dense:
            signatures[name] = SignatureInfo(
                inputs=_convert_tensors(signature.inputs),
                outputs=_convert_tensors(signature.outputs),
                method=signature.method_name,
                defaults=tuple(sorted(signature.defaults)),
            )
    if not signatures:
        raise _explain_missing_signature(file, message)
    # The graph reads them when it starts.
    assets = tuple(sorted({asset.filename for asset in message.asset_file_def}))
    for name in assets:
        asset = version / "assets" / name
        if not asset.is_file():
            problem = "does not exist, but the graph reads it when it starts"
            raise PackagingError(asset, problem, "export the SavedModel again, or copy it again")
        reject_pointer(asset)
    return SavedModelInfo(
        folder=version,
        tags=SERVE,
        tensorflow_version=message.meta_info_def.tensorflow_version,
        signatures=signatures,
        assets=assets,
        has_variables=graph.has_variables,
        variable_bytes=compute_variable_bytes(version, needed=graph.has_variables),
        has_warm_up=(version / WARM_UP).is_file(),
    )


def select_served_graph(file: Path, graphs: list[MetaGraph]) -> MetaGraph:
    """Return the graph that TensorFlow Serving loads. Raises `PackagingError` if there is none."""
    tags = [frozenset(graph.message.meta_info_def.tags) for graph in graphs]
    if SERVE not in tags:
        names = sorted({f"{'+'.join(sorted(some)) or 'nothing':.100}" for some in tags})
        more = f" and {len(names) - _MOST_SHOWN:,} more" if len(names) > _MOST_SHOWN else ""
        given = ", ".join(names[:_MOST_SHOWN]) + more
        problem = f"has no graph whose only tag is serve; its graphs are tagged {given}"
        raise PackagingError(file, problem, "export it for serving, with the tag serve")
    return graphs[tags.index(SERVE)]


def _explain_missing_graph(version: Path) -> PackagingError:
    """Return the error for a folder without saved_model.pb; it names what is there instead."""
    for suffix, (form, command) in _OTHER_FORMS.items():
        for other in sorted(version.glob(f"*{suffix}")):
            if other.name != "fingerprint.pb":
                problem = f"has no saved_model.pb, but {other.name}, which is {form}"
                return PackagingError(version, problem, f"{command} into this folder")
    return PackagingError(version, "has no saved_model.pb", "export the SavedModel into it")


def _explain_missing_signature(file: Path, message: Any) -> PackagingError:
    """Return the error for a graph that no request can call."""
    inputs = [pair for each in message.signature_def.values() for pair in each.inputs.items()]
    sparse = sorted({name for name, tensor in inputs if not tensor.name})
    problem = "has no signature that a request could call"
    problem += f": its input {sparse[0]} is sparse" if sparse else ""
    remedy = "export it with signatures of dense inputs, as Keras' model.export() does"
    return PackagingError(file, problem, remedy)


def _convert_tensors(messages: Mapping[str, Any]) -> dict[str, TensorInfo]:
    tensors = {}
    for name, tensor in sorted(messages.items()):
        shape = tensor.tensor_shape
        sizes = tuple(None if dim.size < 0 else dim.size for dim in shape.dim)
        tensors[name] = TensorInfo(
            name=tensor.name or tensor.coo_sparse.values_tensor_name,
            dtype=wire.find_dtype_name(tensor.dtype),
            shape=None if shape.unknown_rank else sizes,
        )
    return tensors


def _suggest_export(folder: Path) -> str:
    if (folder / "saved_model.pb").is_file():
        return f"move its content to {folder.name}/1/, or set version = 1 next to saved_model"
    if (folder / "checkpoint").is_file():
        return (
            "it is a TensorFlow 1 checkpoint: restore it into a session, and write a SavedModel with "
            f"{_SAVE_1}(session, '{folder.name}/1', inputs, outputs)"
        )
    for archive in sorted(folder.glob("*.tar.gz")):
        return f"unpack {archive.name}, which may contain the version folder, and remove it"
    named = sorted(path.parent for path in folder.glob("*/saved_model.pb"))
    if len(named) > 1:
        return f"rename {', '.join(path.name for path in named)} to numbers, such as 1"
    if named:
        renamed = f"{folder.name}/{suggest_version(named[0].name)}"
        return f"rename {folder.name}/{named[0].name} to {renamed}"
    return f"export the SavedModel to {folder.name}/1/"


def suggest_version(name: str) -> str:
    """Return the number in a folder's name (v2 gives 2), or 1 if there isn't exactly one above 0."""
    numbers = re.findall(r"[0-9]+", name)
    return numbers[0].lstrip("0") or "1" if len(numbers) == 1 else "1"
