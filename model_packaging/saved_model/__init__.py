"""Facts about a SavedModel folder without TensorFlow."""

from model_packaging.saved_model.reading import (
    SavedModelInfo,
    SignatureInfo,
    TensorInfo,
    read,
    versions,
)

__all__ = ["SavedModelInfo", "SignatureInfo", "TensorInfo", "read", "versions"]
