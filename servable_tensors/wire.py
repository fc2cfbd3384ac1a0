"""The protobuf messages of TensorFlow, TensorFlow Serving and SavedModel that Servable reads or writes.

Built from the table below and not from generated code: TensorFlow is not in the serving
image, and importing it anywhere costs seconds. Only the fields that we use are named;
protobuf keeps or skips the others. Numbers are those of the public .proto files:
tensorflow/core/{framework,protobuf}/*.proto and tensorflow_serving/apis/*.proto.

The pool is private. In protobuf's default pool these names would make a later
`import tensorflow` fail with "duplicate file name".
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# package: message [field:type=number …]. `*` repeats, `map<T>` has string keys, a capital
# letter starts a message of the same package, `name|` puts the field into the one oneof of its message.
# A dot in a message's name nests it in the message above.
_TABLE = """
google.protobuf
Int64Value value:int64=1
Any type_url:string=1 value:bytes=2

tensorflow
TensorShapeProto dim:*TensorShapeProto.Dim=2 unknown_rank:bool=3
TensorShapeProto.Dim size:int64=1 name:string=2
TensorProto dtype:DataType=1 tensor_shape:TensorShapeProto=2 version_number:int32=3 \
 tensor_content:bytes=4 float_val:*float=5 double_val:*double=6 int_val:*int32=7 \
 string_val:*bytes=8 scomplex_val:*float=9 int64_val:*int64=10 bool_val:*bool=11 \
 dcomplex_val:*double=12 half_val:*int32=13 uint32_val:*uint32=16 uint64_val:*uint64=17
TensorInfo name|:string=1 coo_sparse|:TensorInfo.CooSparse=4 dtype:DataType=2 \
 tensor_shape:TensorShapeProto=3
TensorInfo.CooSparse values_tensor_name:string=1 indices_tensor_name:string=2 \
 dense_shape_tensor_name:string=3
SignatureDef inputs:map<TensorInfo>=1 outputs:map<TensorInfo>=2 method_name:string=3
AssetFileDef tensor_info:TensorInfo=1 filename:string=2
MetaGraphDef meta_info_def:MetaGraphDef.MetaInfoDef=1 signature_def:map<SignatureDef>=5 \
 asset_file_def:*AssetFileDef=6
MetaGraphDef.MetaInfoDef meta_graph_version:string=1 tags:*string=4 tensorflow_version:string=5
BundleHeaderProto num_shards:int32=1 endianness:int32=2
BundleEntryProto dtype:DataType=1 shape:TensorShapeProto=2 shard_id:int32=3 offset:int64=4 \
 size:int64=5 crc32c:fixed32=6

tensorflow.serving
ModelSpec name:string=1 version|:google.protobuf.Int64Value=2 signature_name:string=3 \
 version_label|:string=4
PredictRequest model_spec:ModelSpec=1 inputs:map<tensorflow.TensorProto>=2 output_filter:*string=3
PredictResponse outputs:map<tensorflow.TensorProto>=1 model_spec:ModelSpec=2
PredictLog request:PredictRequest=1 response:PredictResponse=2
PredictionLog classify_log|:bytes=2 regress_log|:bytes=3 multi_inference_log|:bytes=4 \
 session_run_log|:bytes=5 predict_log|:PredictLog=6 predict_streamed_log|:bytes=7
SignatureDefMap signature_def:map<tensorflow.SignatureDef>=1
GetModelMetadataRequest model_spec:ModelSpec=1 metadata_field:*string=2
GetModelMetadataResponse model_spec:ModelSpec=1 metadata:map<google.protobuf.Any>=2
StatusProto error_code:int32=1 error_message:string=2
ModelVersionStatus version:int64=1 state:int32=2 status:StatusProto=3
GetModelStatusRequest model_spec:ModelSpec=1
GetModelStatusResponse model_version_status:*ModelVersionStatus=1
Input example_list|:ExampleList=1
ExampleList examples:*bytes=1
ClassificationRequest model_spec:ModelSpec=1 input:Input=2
ClassificationResponse result:ClassificationResult=1 model_spec:ModelSpec=2
ClassificationResult classifications:*Classifications=1
Classifications classes:*Class=1
Class label:string=1 score:float=2
RegressionRequest model_spec:ModelSpec=1 input:Input=2
RegressionResponse result:RegressionResult=1 model_spec:ModelSpec=2
RegressionResult regressions:*Regression=1
Regression value:float=1
"""

# tensorflow/core/framework/types.proto; a number not named here keeps its number (open enum).
_DATA_TYPES = (
    "INVALID FLOAT DOUBLE INT32 UINT8 INT16 INT8 STRING COMPLEX64 INT64 BOOL QINT8 QUINT8 QINT32 "
    "BFLOAT16 QINT16 QUINT16 UINT16 COMPLEX128 HALF RESOURCE VARIANT UINT32 UINT64"
)

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    *["double", "float", "int64", "uint64", "int32", "uint32", "fixed32", "bool", "string", "bytes"]
}


def _pool() -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    imported: list[str] = []
    for block in _TABLE.replace("\\\n", "").strip().split("\n\n"):
        package, *lines = block.split("\n")
        file = descriptor_pb2.FileDescriptorProto(
            name=f"servable/{package}.proto", package=package, syntax="proto3", dependency=imported
        )
        if package == "tensorflow":
            file.enum_type.add(name="DataType").value.extend(
                descriptor_pb2.EnumValueDescriptorProto(name=f"DT_{name}", number=number)
                for number, name in enumerate(_DATA_TYPES.split())
            )
        messages: dict[str, descriptor_pb2.DescriptorProto] = {}
        for line in lines:
            name, *fields = line.split()
            outer, _, inner = name.rpartition(".")
            message = messages[outer].nested_type.add() if outer else file.message_type.add()
            message.name, messages[name] = inner, message
            for field in fields:
                _add_field(message, f".{package}.{name}", package, field)
        pool.AddSerializedFile(file.SerializeToString())
        imported.append(file.name)
    return pool


def _add_field(
    message: descriptor_pb2.DescriptorProto, full_name: str, package: str, written: str
) -> None:
    name, _, rest = written.partition(":")
    kind, _, number = rest.partition("=")
    field = message.field.add(
        name=name.rstrip("|"), number=int(number), label=_FIELD.LABEL_OPTIONAL
    )
    if name.endswith("|"):
        if not message.oneof_decl:
            message.oneof_decl.add(name="choice")
        field.oneof_index = 0
    if kind.startswith("map<"):
        # A map is, on the wire and in descriptors, a repeated pair.
        pair = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
        entry = message.nested_type.add(name=pair)
        entry.options.map_entry = True
        _add_field(entry, "", package, "key:string=1")
        _add_field(entry, "", package, f"value:{kind[4:-1]}=2")
        kind = f"*{full_name}.{pair}"
    if kind.startswith("*"):
        field.label, kind = _FIELD.LABEL_REPEATED, kind[1:]
    if kind in _SCALARS:
        field.type = getattr(_FIELD, f"TYPE_{kind.upper()}")
    elif kind == "DataType":
        field.type, field.type_name = _FIELD.TYPE_ENUM, ".tensorflow.DataType"
    else:
        full = kind if kind.startswith(("google.", "tensorflow.", ".")) else f"{package}.{kind}"
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{full.removeprefix('.')}"


_POOL = _pool()


def _message(name: str) -> Any:
    # Any: a class made from a descriptor has attributes that no type checker can see.
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(name))


TensorShapeProto = _message("tensorflow.TensorShapeProto")
TensorProto = _message("tensorflow.TensorProto")
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
    number: {"FLOAT": "float32", "DOUBLE": "float64", "HALF": "float16"}.get(name, name.lower())
    for number, name in enumerate(_DATA_TYPES.split())
}
