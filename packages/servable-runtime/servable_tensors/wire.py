"""The protobuf messages of TensorFlow, TensorFlow Serving and SavedModel that Servable reads or writes.

tensorflow.proto and tensorflow_serving.proto say which; `python scripts/generate.py` compiles them
into descriptors.base64. TensorFlow itself is not in the serving image, and importing it anywhere
costs seconds.

The pool is private. In protobuf's default pool these names would make a later
`import tensorflow` fail with "duplicate file name".
"""

import base64
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def _pool() -> descriptor_pool.DescriptorPool:
    compiled = base64.b64decode(Path(__file__).with_name("descriptors.base64").read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled).file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


_POOL = _pool()


def _message(name: str) -> Any:
    # Any: a class made from a descriptor has attributes that no type checker can see.
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


TensorShapeProto = _message("tensorflow.TensorShapeProto")
TensorProto = _message("tensorflow.TensorProto")
AttrValue = _message("tensorflow.AttrValue")
NameAttrList = _message("tensorflow.NameAttrList")
AttrEntry = _message("tensorflow.AttrEntry")
NodeDef = _message("tensorflow.NodeDef")
FunctionDef = _message("tensorflow.FunctionDef")
VersionDef = _message("tensorflow.VersionDef")
GraphDef = _message("tensorflow.GraphDef")
TensorInfo = _message("tensorflow.TensorInfo")
SignatureDef = _message("tensorflow.SignatureDef")
AssetFileDef = _message("tensorflow.AssetFileDef")
MetaGraphDef = _message("tensorflow.MetaGraphDef")
MetaInfoDef = _message("tensorflow.MetaGraphDef.MetaInfoDef")
BundleHeaderProto = _message("tensorflow.BundleHeaderProto")
BundleEntryProto = _message("tensorflow.BundleEntryProto")
ModelSpec = _message("tensorflow.serving.ModelSpec")
PredictRequest = _message("tensorflow.serving.PredictRequest")
PredictResponse = _message("tensorflow.serving.PredictResponse")
PredictLog = _message("tensorflow.serving.PredictLog")
PredictionLog = _message("tensorflow.serving.PredictionLog")
SignatureDefMap = _message("tensorflow.serving.SignatureDefMap")
GetModelMetadataRequest = _message("tensorflow.serving.GetModelMetadataRequest")
GetModelMetadataResponse = _message("tensorflow.serving.GetModelMetadataResponse")
GetModelStatusRequest = _message("tensorflow.serving.GetModelStatusRequest")
GetModelStatusResponse = _message("tensorflow.serving.GetModelStatusResponse")
ClassificationRequest = _message("tensorflow.serving.ClassificationRequest")
ClassificationResponse = _message("tensorflow.serving.ClassificationResponse")
RegressionRequest = _message("tensorflow.serving.RegressionRequest")
RegressionResponse = _message("tensorflow.serving.RegressionResponse")

DataType: dict[str, int] = {
    value.name: value.number for value in _POOL.FindEnumTypeByName("tensorflow.DataType").values
}
"""DT_FLOAT -> 1, and so on."""


def dtype_name(number: int) -> str:
    """1 -> "float32", the name that TensorFlow and NumPy write; a number not known stays one."""
    return _DTYPE_NAMES.get(number, f"dtype {number}")


_DTYPE_NAMES = {
    number: {"DT_FLOAT": "float32", "DT_DOUBLE": "float64", "DT_HALF": "float16"}.get(
        name, name.removeprefix("DT_").lower()
    )
    for name, number in DataType.items()
}
