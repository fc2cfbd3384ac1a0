"""Facts about a SavedModel folder without TensorFlow."""

from model_packaging.saved_model.reading import (
    SavedModelInfo,
    SignatureInfo,
    TensorInfo,
    read,
    versions,
)
from servable_tensors.wire import dtype_name

__all__ = ["SavedModelInfo", "SignatureInfo", "TensorInfo", "dtype_name", "read", "versions"]
