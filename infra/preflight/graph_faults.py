"""Finds operations of a model's graph that the TensorFlow of an image would reject or can't run.

The version that wrote the model isn't compared, because only what its graph requires counts.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from infra.catalog.images import (
    REQUIRED,
    OpAttribute,
    OpDefinition,
    OpTable,
    list_operation_tables,
    load_op_tables,
)
from model_packaging.saved_model.graph_file import (
    FILE_INPUTS,
    Attribute,
    GraphOperations,
    Operation,
    format_value,
)

# Operations that call Python functions of the process that exported the model.
# Source: https://www.tensorflow.org/api_docs/python/tf/py_function, "the body of the function … will
# not be serialized in a GraphDef", read 2026-11-22
PYTHON_OPS = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})
# A pass over the graph replaces this operation by others before it runs; it has no kernel of its own.
# Source: tensorflow/core/common_runtime/accumulate_n_optimizer.cc, read 2026-11-22
_REWRITTEN = frozenset({"AccumulateNV2"})
# Operations of GPU builds with TensorRT, which no CPU wheel has. The GPU images were not examined.
_TENSORRT = re.compile(r".*TRT.*|GetCalibrationDataOp")
# Operations whose CPU kernels take channels last; with oneDNN they take both. Observed with 2.21.
_CHANNELS_LAST = frozenset(
    {"Conv2D", "Conv2DBackpropInput", "DepthwiseConv2dNative", "MaxPool", "AvgPool"}
    | {"Conv3D", "Conv3DBackpropInputV2", "MaxPool3D", "AvgPool3D"}
)
# And those that oneDNN does not compute either.
_NEVER_FIRST = frozenset({"DepthToSpace", "SpaceToDepth"})
# Attributes with names and notes: a TensorFlow that does not know them computes the same.
_NOTES = frozenset({"debug_name", "metadata"})
# The folder into which SageMaker unpacks the archive: paths below it are not checked.
_ARCHIVE = "/opt/ml/model/"
_NETWORK = re.compile(r"(s3|gs|hdfs|https?)://")
# TensorFlow's name of a kind of attribute, to the field of AttrValue that holds it.
_KINDS = {"int": "i", "float": "f", "bool": "b", "string": "s"}
# A portable artifact begins with magic bytes, the version of the bytecode as a varint (MLIR's: shifted
# by one), and its producer. Source: https://mlir.llvm.org/docs/BytecodeFormat/, read 2026-11-22
_STABLEHLO = re.compile(r"ML\xefR(.)StableHLO_v(\d+\.\d+\.\d+)", re.DOTALL)
# tensorflow/core/framework/types.h adds 100 to a type for a reference to a variable.
_REFERENCE = 100
_FAILS, _LOADS_NOT = "the request that reaches it fails", "the model does not load"


@dataclass(frozen=True)
class GraphFault:
    """One fault of a graph; `rule` is the id of the rule that reports it."""

    rule: str
    given: str | int
    problem: str
    allowed: str
    remedy: str


@dataclass(frozen=True)
class _Subject:
    """An operation, its graph, and whether it runs on a CPU."""

    operation: Operation
    graph: GraphOperations
    cpu: bool


# What is wrong with an operation under one table, or None.
_Problem = Callable[[_Subject, OpTable], str | None]


def find_graph_faults(graph: GraphOperations, table: OpTable, *, cpu: bool) -> Iterator[GraphFault]:
    """Yield each fault once, with its first node. `cpu`: the instance type has no GPU."""
    images = list_operation_tables()
    if (reason := _explain_version(graph, table)) is not None:
        takers = [image for image in images if _explain_version(graph, image) is None]
        remedy = "export it again with the TensorFlow of the image"
        problem = f"{reason}: {_LOADS_NOT}"
        yield _build_fault("model-graph-version", graph.min_consumer, problem, takers, remedy)
    seen = set()
    for operation in graph.operations:
        op, subject = operation.op, _Subject(operation, graph, cpu)
        for rule, (explain, remedy) in _FINDERS.items():
            reason = explain(subject, table)
            if reason is None or (rule, op, reason) in seen:
                continue
            seen.add((rule, op, reason))
            takers = [image for image in images if op in image and explain(subject, image) is None]
            inside = f" in function {operation.function!r}" if operation.function else ""
            text = f"{op} (node {operation.node!r}){inside}: {reason}"
            otherwise = remedy.format(with_gpu="with" if cpu else "without") or _suggest_export(op)
            yield _build_fault(rule, op, text, takers, otherwise)


def _build_fault(
    rule: str, given: str | int, problem: str, takers: list[OpTable], remedy: str
) -> GraphFault:
    """Return a fault that the images of `takers` don't have; `remedy` is used if there are none."""
    if not takers:
        return GraphFault(rule, given, problem, "no image supports it", remedy)
    versions = [table.version for table in takers]
    allowed = f"the images of TensorFlow {', '.join(versions)}"
    return GraphFault(rule, given, problem, allowed, f'set tensorflow = "{versions[-1]}"')


def _explain_version(graph: GraphOperations, table: OpTable) -> str | None:
    if graph.min_consumer > table.graph_def:
        return (
            f"the graph requires a TensorFlow that reads version {graph.min_consumer} of GraphDef "
            f"(min_consumer), and {table.version} reads up to {table.graph_def}"
        )
    if table.graph_def in graph.bad_consumers:
        return f"the graph names {table.version} in bad_consumers, which must not read it"
    if graph.producer < table.min_producer:
        return (
            f"the graph has version {graph.producer} of GraphDef, and {table.version} reads versions from "
            f"{table.min_producer} on"
        )
    return None


def _explain_unknown(subject: _Subject, table: OpTable) -> str | None:
    op, fails = subject.operation.op, _describe_load_failure(subject.operation)
    if op in table or (not subject.cpu and _TENSORRT.fullmatch(op)):
        return None
    return f"TensorFlow Serving {table.version} has no such operation; {fails}"


# Observed with the TensorFlow of each table: a model is loaded as a whole, operations of its functions
# included. Kernels of the graph itself are looked up at load, and those of functions when a request
# reaches them.


def _describe_load_failure(operation: Operation) -> str:
    return f"{_LOADS_NOT}, or its first request fails" if operation.function else _LOADS_NOT


def _describe_run_failure(operation: Operation) -> str:
    return _FAILS if operation.function else _LOADS_NOT


def _explain_removed(subject: _Subject, table: OpTable) -> str | None:
    definition = table.get(subject.operation.op)
    removed_in = None if definition is None else definition.removed_in
    if removed_in is None or subject.graph.producer < removed_in:
        return None
    return (
        f"is not allowed in graphs of GraphDef version {removed_in} or newer, and this graph has "
        f"version {subject.graph.producer}; {_describe_run_failure(subject.operation)}"
    )


def _explain_bad_attribute(subject: _Subject, table: OpTable) -> str | None:
    operation, fails = subject.operation, _describe_load_failure(subject.operation)
    definition, given = table.get(operation.op), operation.attributes
    for name, attribute in definition.attributes.items() if definition else ():
        if name not in given:
            if attribute.default == REQUIRED:
                return f"lacks the attribute {name}, which has no default; {fails}"
        elif (wrong := _explain_wrong_value(given[name], attribute)) is not None:
            return f"{name} is {wrong} in TensorFlow {table.version}; {fails}"
    return None


def _explain_wrong_value(given: Attribute, declared: OpAttribute) -> str | None:
    """Explain why ValidateAttrValue (op_def_util.cc of TensorFlow) rejects a value, or return None."""
    kind, value = given
    inner = declared.kind.removeprefix("list(").removesuffix(")")
    is_list = inner != declared.kind
    expected = f"list({_KINDS.get(inner, inner)})" if is_list else _KINDS.get(inner, inner)
    if kind == "placeholder" or (is_list and kind == "list()" and not declared.minimum):
        return None
    if kind not in (expected, "list()" if is_list else expected):
        short = kind.removeprefix("list(").removesuffix(")")
        name = next((long for long, other in _KINDS.items() if other == short), short)
        written = f"list({name})" if short != kind else name
        return f"{written or 'without a value'}, and must be {declared.kind}"
    if declared.minimum is not None:
        size = len(value) if is_list else value
        if size < declared.minimum:
            return f"{size}, and must be at least {declared.minimum}"
    for part in value if is_list else [value]:
        if declared.allowed is not None and part not in declared.allowed:
            allowed = ", ".join(format_value(inner, each) for each in declared.allowed)
            return f"{format_value(inner, part)}, and must be one of {allowed}"
    return None


def _explain_ignored_attribute(subject: _Subject, table: OpTable) -> str | None:
    operation = subject.operation
    definition = table.get(operation.op)
    # A module that is too new gives one finding, and not one for each of its newer attributes.
    if definition is None or _explain_stablehlo(subject, table) is not None:
        return None
    for name, (kind, value) in operation.attributes.items():
        if name in definition.attributes or name in _NOTES:
            continue
        definitions = filter(None, (other.get(operation.op) for other in load_op_tables()))
        newer = filter(None, (other.attributes.get(name) for other in definitions))
        if (kind, value) not in [attribute.default for attribute in newer]:
            shown = "" if value is None else f" ({format_value(kind, value)[:80]})"
            return f"TensorFlow {table.version} does not know its attribute {name}{shown} and ignores it"
    return None


def _explain_stablehlo(subject: _Subject, table: OpTable) -> str | None:
    """Explain why a request to an XlaCallModule fails in a TensorFlow, or return None."""
    if subject.operation.op != "XlaCallModule":
        return None
    given = subject.operation.attributes
    kind, version = given.get("version", ("", None))
    module_kind, module = given.get("module", ("", None))
    if (kind, module_kind) != ("i", "s"):
        return None  # model-op-attribute reports it
    reader = f"TensorFlow {table.version}"
    oldest, newest = table.xla_call_module
    if (oldest is not None and version < oldest) or (newest is not None and version > newest):
        runs = f"{oldest or 'any'} to {newest or 'any'}"
        return f"has version {version}, and {reader} runs versions {runs}; {_FAILS}"
    match = _STABLEHLO.match(module)
    if match is None:
        return None
    bytecode, stablehlo = ord(match[1]) >> 1, match[2]
    if bytecode > table.mlir_bytecode:
        reads = f"up to {table.mlir_bytecode}" if table.mlir_bytecode >= 0 else "none"
        module = f"MLIR bytecode {bytecode} (StableHLO {stablehlo})"
        return f"its module is {module}, and {reader} reads {reads}; {_FAILS}"
    newer = [
        name
        for name in dict.fromkeys(module.split("\0")[1:])
        if any(f"vhlo.{name}" in other for other in load_op_tables())
        and f"vhlo.{name}" not in table
    ]
    if newer:
        return f"its StableHLO {stablehlo} has {', '.join(newer)}, which {reader} lacks; {_FAILS}"
    # TensorFlow itself does not compare the versions: a newer module of known operations runs.
    major, supported = stablehlo.partition(".")[0], (table.stablehlo or "1").partition(".")[0]
    if int(major) <= int(supported):
        return None
    return f"its StableHLO {stablehlo} isn't guaranteed to run in {reader}, which has StableHLO {supported}"


def _explain_platform(subject: _Subject, _: OpTable) -> str | None:
    """Explain why an XlaCallModule doesn't run on this kind of instance, or return None.

    Source: SetPlatformIndex in tensorflow/compiler/tf2xla/kernels/xla_call_module_loader.cc,
    2026-11-22
    """
    given = subject.operation.attributes
    kind, platforms = given.get("platforms", ("", None))
    unchecked = "platform" in (given.get("disabled_checks", ("", None))[1] or ())
    # Without platforms it runs on any.
    if subject.operation.op != "XlaCallModule" or kind != "list(s)" or unchecked:
        return None
    needed, machine = ("CPU", "without a GPU") if subject.cpu else ("CUDA", "with a GPU")
    if needed in platforms:
        return None
    return f"its module is for {', '.join(platforms)}, and an instance type {machine} is {needed}; {_FAILS}"


def _explain_python(subject: _Subject, _: OpTable) -> str | None:
    if subject.operation.op not in PYTHON_OPS:
        return None
    fails = _describe_run_failure(subject.operation)
    return f"calls a Python function, and TensorFlow Serving has no Python; {fails}"


def _explain_missing_kernel(subject: _Subject, table: OpTable) -> str | None:
    operation = subject.operation
    definition, fails = table.get(operation.op), _describe_run_failure(operation)
    if definition is None or not subject.cpu or operation.compiled or operation.op in _REWRITTEN:
        return None
    others = (_explain_python, _explain_removed, _explain_bad_attribute)
    if any(explain(subject, table) for explain in others):
        return None  # one finding is enough
    lacks = f"TensorFlow {table.version} has no CPU kernel for"
    if not definition.cpu:
        return f"{lacks} it; {fails}"
    if operation.op in _NEVER_FIRST and (order := _find_channel_order(operation)):
        return f"{lacks} {order}; {fails}"
    if any(_is_supported(operation, definition, kernel) for kernel in definition.cpu):
        return None
    types = ", ".join(
        f"{name} {format_value(*operation.attributes[name])}"
        for name in sorted({name for kernel in definition.cpu for name in kernel})
        if operation.attributes.get(name, ("", None))[0] == "type"
    )
    return f"{lacks} {types or 'its types'}; {fails}"


def _find_channel_order(operation: Operation) -> str:
    """Return the order of channels first, such as NCHW, or "" for channels last, the default."""
    order = str(operation.attributes.get("data_format", ("s", ""))[1])
    return order if order.startswith("NC") else ""


def _explain_onednn(subject: _Subject, _: OpTable) -> str | None:
    operation, order = subject.operation, _find_channel_order(subject.operation)
    if operation.op not in _CHANNELS_LAST or not order or not subject.cpu or operation.compiled:
        return None
    return f"is in {order}, which only oneDNN computes on a CPU; without it {_FAILS}"


def _is_supported(
    operation: Operation, definition: OpDefinition, kernel: Mapping[str, frozenset[int]]
) -> bool:
    for name, allowed in kernel.items():
        declared = definition.attributes.get(name)
        kind, value = operation.attributes.get(name, declared.default if declared else REQUIRED)
        types = value if kind == "list(type)" else [value] if kind == "type" else []
        if any(each % _REFERENCE not in allowed for each in types):
            return False
    return True


def _explain_outside_file(subject: _Subject, _: OpTable) -> str | None:
    op, path = subject.operation.op, subject.operation.path
    if op not in FILE_INPUTS:
        return None
    if path is None:
        # The path of an asset comes as an argument of the function, as may any other path.
        if subject.graph.has_assets or op.startswith("InitializeTable"):
            return None
        return "reads a file whose name the graph computes, and the archive has no assets"
    if path.startswith(_ARCHIVE):
        return None
    origin = "the network" if _NETWORK.match(path) else "a file that is not an asset of the model"
    return f"needs {path!r}: {origin}, which the container may not have"


def _suggest_export(op: str) -> str:
    newest = [table.version for table in load_op_tables() if op in table]
    if newest:
        only = f"only TensorFlow {newest[-1]} has it, for which there is no image"
        return f"{only}: export the model without it, or name your own image (models.NAME.image)"
    without = "export the model without this custom operation"
    return f"{without}, or name your own image that has it (models.NAME.image)"


# Rule to its finder, and the remedy where no newer image takes the operation.
_FINDERS: Mapping[str, tuple[_Problem, str]] = {
    "model-op-unknown": (_explain_unknown, ""),  # see _other_export
    "model-op-removed": (_explain_removed, "export the model again with a newer TensorFlow"),
    "model-op-attribute": (
        _explain_bad_attribute,
        "export the model again with the TensorFlow of the image",
    ),
    "model-op-attribute-ignored": (
        _explain_ignored_attribute,
        "compare a response of the container with a result of the exporting process; "
        "or export it with the TensorFlow of the image",
    ),
    "model-stablehlo-version": (
        _explain_stablehlo,
        "export it again with a jax version from the image's time, or with the native serialization "
        "version and the StableHLO version that the image reads",
    ),
    "model-platform": (
        _explain_platform,
        'export it again with native_serialization_platforms=("cpu", "cuda") of jax2tf.convert, '
        "or choose an instance type {with_gpu} a GPU",
    ),
    "model-needs-python": (
        _explain_python,
        "write it with TensorFlow's operations instead of tf.py_function and tf.numpy_function, or do "
        "it in transforms.py or inference.py of the code folder",
    ),
    "model-op-without-kernel": (
        _explain_missing_kernel,
        "choose an instance type with a GPU, or export the model for CPUs",
    ),
    "model-channels-first": (
        _explain_onednn,
        "set onednn = true in [variants.NAME.container], or export the model with channels last",
    ),
    "model-reads-outside": (
        _explain_outside_file,
        "export it as an asset (tf.saved_model.Asset), or put it into the archive and name "
        f"it by {_ARCHIVE}…",
    ),
}
