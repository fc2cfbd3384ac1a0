"""Reads a SavedModel folder without TensorFlow."""

from model_packaging.saved_model.reading import (
    SavedModelInfo,
    SignatureInfo,
    TensorInfo,
    list_versions,
    read,
)
from servable_tensors.wire import find_dtype_name

__all__ = [
    "SavedModelInfo",
    "SignatureInfo",
    "TensorInfo",
    "find_dtype_name",
    "list_versions",
    "read",
]
