"""What the TensorFlow of an image makes of a graph, on both sides of each bound, and the words of a fault.

The graphs are small and made here. That they fail where it is said, and run where nothing is, was
tried with the TensorFlow 2.12, 2.13, 2.14, 2.16, 2.20 and 2.21 of the wheels.
"""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.catalog.images import OpTable, find_op_table
from infra.parameters.finding import Severity
from infra.preflight import rule as base
from infra.preflight.check import RULES, check, check_all
from infra.preflight.graph_faults import GraphFault, find_graph_faults
from model_packaging.saved_model.graph_file import GraphOperations
from model_packaging.saved_model.operations import read_operations
from servable_tensors import wire
from tests.conftest import VALID, Environment
from tests.preflight.graphs import Graph

MODULES = json.loads((Path(__file__).parents[2] / "scripts" / "stablehlo_modules.json").read_text())
BYTECODE = {int(name): base64.b64decode(one) for name, one in MODULES["modules"].items()}


@pytest.fixture
def graph(project: Path) -> Graph:
    return Graph(project / "model" / "1")


def table(version: str) -> OpTable:
    found = find_op_table(version)
    assert found is not None
    return found


def faults(graph: Graph, version: str = "2.20", *, cpu: bool = True) -> list[GraphFault]:
    graph.write()
    return list(find_graph_faults(read_operations(graph.folder), table(version), cpu=cpu))


def rules(graph: Graph, version: str = "2.20", *, cpu: bool = True) -> list[str]:
    return [fault.rule for fault in faults(graph, version, cpu=cpu)]


def module(body: bytes, version: object = 9, **more: Any) -> dict[str, Any]:
    """Return the attributes of an XlaCallModule."""
    lists: dict[str, Any] = {"Sout": [], "Tout": [], "Tin": [], "dim_args_spec": []}
    return {"module": body, "version": version, **lists, **more}


def texts(*several: bytes) -> Any:
    """Return a list of strings, as an attribute."""
    return wire.AttrValue(list=wire.AttrValue.ListValue(s=several))


Plant = Callable[[Graph], object]
Case = tuple[Plant, dict[str, Any], str | None]


def served(op: str, types: tuple[str, ...] = (), **attributes: Any) -> Plant:
    return lambda graph: graph.served(op, types, **attributes)


def called_module(*arguments: Any, **more: Any) -> Plant:
    return served("XlaCallModule", **module(*arguments, **more))


def matmul(**attributes: Any) -> Plant:
    return served("MatMul", ("T",), **attributes)


def laid_out(op: str, order: bytes) -> Plant:
    given = {"strides": [1] * 4, "padding": b"SAME"} if op == "Conv2D" else {"block_size": 2}
    return served(op, ("T",), T=1, data_format=order, **given)


def versions(**numbers: Any) -> Plant:
    return lambda graph: vars(graph).update(numbers)


def tensor_array(producer: int) -> Plant:
    def plant(graph: Graph) -> None:
        graph.producer = producer
        graph.served("TensorArrayV2", ("dtype",), dtype=1)

    return plant


WORDPIECE = served(
    "WordpieceTokenizeWithOffsets", suffix_indicator=b"##", max_bytes_per_word=100,
    use_unknown_token=True, unknown_token=b"[UNK]", output_row_partition_type=b"row_splits",
)  # fmt: skip
PYTHON: dict[str, Any] = {"token": b"pyfunc_0", "Tin": [1], "Tout": [1]}
READER = table("2.20").graph_def
UNKNOWN, ATTRIBUTE, IGNORED = "model-op-unknown", "model-op-attribute", "model-op-attribute-ignored"
STABLEHLO, PLATFORM = "model-stablehlo-version", "model-platform"
KERNEL, OUTSIDE = "model-op-without-kernel", "model-reads-outside"
OLD, GPU = {"version": "2.12"}, {"cpu": False}

# By behavior: what is planted, the image and the machine, and the rule that finds it.
JUDGED: list[Case] = [
    # An operation of a newer TensorFlow is unknown to the image.
    (served("DecodeJxl"), {"version": "2.21"}, None),
    # The operations of TensorFlow Text are linked.
    (WORDPIECE, {}, None),
    (WORDPIECE, OLD, None),
    # Only what is called is looked at.
    (lambda graph: graph.unused("MyOp"), {}, None),
    (lambda graph: graph.called("MyOp"), {}, UNKNOWN),
    # A TensorRT engine is not judged on a GPU.
    (served("TRTEngineOp"), {}, UNKNOWN),
    (served("TRTEngineOp"), GPU, None),
    # Attributes are held against the operation.
    (matmul(T=1), {}, None),
    (matmul(T=7), {}, ATTRIBUTE),
    (matmul(T=1, transpose_a=True), {}, None),
    (matmul(T=1, made_up=b"yes"), {}, IGNORED),
    (matmul(T=1, _made_up=b"yes"), {}, None),
    # A newer attribute with its default changes nothing.
    (matmul(T=1, grad_a=False), OLD, None),
    (matmul(T=1, grad_a=True), OLD, IGNORED),
    # A list has as many as it must.
    (served("IdentityN", ("T",), T=[1]), {}, None),
    (served("IdentityN", ("T",), T=[]), {}, ATTRIBUTE),
    # A graph may ask for the image's reader.
    (versions(min_consumer=READER), {}, None),
    # A graph may name readers that are bad.
    (versions(bad_consumers=[READER]), {"version": "2.19"}, None),
    # An operation is taken out of newer graphs.
    (tensor_array(25), {}, None),
    # A version of XlaCallModule is run up to the image's.
    (called_module(BYTECODE[6], 4), {}, None),
    (called_module(BYTECODE[6], 10), {}, None),
    (called_module(b"", 99), {}, STABLEHLO),
    (called_module(BYTECODE[6], 10), {"version": "2.16"}, STABLEHLO),
    # A version that is no number is a bad attribute.
    (called_module(BYTECODE[6], b"ten"), {}, ATTRIBUTE),
    # A module that is too new is one fault.
    (called_module(BYTECODE[6], 10, use_shardy_partitioner=True), {"version": "2.16"}, STABLEHLO),
    # Bytecode is read up to the image's version.
    (called_module(BYTECODE[4], 8), {"version": "2.14"}, None),
    # An operation of StableHLO that the image lacks is found.
    (called_module(BYTECODE[6] + b"\0add_v1\0"), {}, None),
    # A newer StableHLO of known operations runs.
    (called_module(BYTECODE[6].replace(b"0.15.0", b"1.99.0")), {}, None),
    (called_module(BYTECODE[6].replace(b"0.15.0", b"9.0.0")), {}, STABLEHLO),
    # A module runs on the platforms that it names.
    (called_module(BYTECODE[6], platforms=texts(b"CPU")), {}, None),
    (called_module(BYTECODE[6], platforms=texts(b"CUDA")), {}, PLATFORM),
    (called_module(BYTECODE[6], platforms=texts(b"CUDA")), GPU, None),
    (called_module(BYTECODE[6], platforms=texts(b"CPU")), GPU, PLATFORM),
    (called_module(BYTECODE[6], platforms=texts(b"CPU", b"CUDA")), {}, None),
    (called_module(BYTECODE[6], platforms=texts(b"CPU", b"CUDA")), GPU, None),
    (called_module(BYTECODE[6], platforms=texts()), {}, None),
    # What is not there when a request comes.
    # A Python function stays where it was.
    (served("PyFuncStateless", **PYTHON), {}, "model-needs-python"),
    (served("EagerPyFunc", **PYTHON), {}, "model-needs-python"),
    # An operation without a CPU kernel needs a GPU.
    (served("CudnnRNNV3", ("T",), T=1), {}, KERNEL),
    (served("CudnnRNNV3", ("T",), T=1), GPU, None),
    # A kernel takes some types.
    (served("Max", ("T",), T=1), {}, None),
    (served("Max", ("T",), T=13), {}, KERNEL),
    # Channels first needs oneDNN or a GPU.
    (laid_out("Conv2D", b"NCHW"), {}, "model-channels-first"),
    (laid_out("Conv2D", b"NHWC"), {}, None),
    (laid_out("Conv2D", b"NCHW"), GPU, None),
    (laid_out("SpaceToDepth", b"NCHW"), {}, KERNEL),
    (laid_out("SpaceToDepth", b"NHWC"), {}, None),
    # A file that is not in the archive is found.
    (lambda graph: graph.served_file("ReadFile", b"/opt/ml/model/words.txt"), {}, None),
]


@pytest.mark.parametrize(("plant", "image", "rule"), JUDGED)
def test_the_image_decides_what_is_a_fault(
    tmp_path: Path, plant: Plant, image: dict[str, Any], rule: str | None
) -> None:
    graph = Graph(tmp_path)
    plant(graph)
    assert rules(graph, **image) == ([rule] if rule else [])


def test_what_the_image_runs_is_no_fault(graph: Graph) -> None:
    assert rules(graph) == []
    graph.producer = 99_999
    graph.served("SimpleMLLoadModelFromPathWithHandle")
    graph.main("__inference_called")
    graph.called("NoOp")
    called_module(BYTECODE[6], platforms=texts(b"CUDA"), disabled_checks=texts(b"platform"))(graph)
    graph.called("XlaSetBound", compiled=True)
    graph.served("InitializeTableFromTextFileV2", key_index=-2, value_index=-1)
    assert rules(graph) == []


IN = "(node 'planted') in function '__inference_serve'"
LATE = "; the model does not load, or its first request fails"
FAILS = "; the request that reaches it fails"
NO_OPERATION = "TensorFlow Serving 2.20 has no such operation"
NO_PYTHON = "calls a Python function, and TensorFlow Serving has no Python"
RUNS = "TensorFlow 2.20 runs versions 4 to 10"
OWN_IMAGE = "name your own image"
AGAIN = f"{ATTRIBUTE}: export the model again with the TensorFlow of the image"
# RULE: REMEDY, what is planted in 2.20, and the problem; without an image that takes it.
FAULTS: dict[str, list[tuple[Plant, str]]] = {
    f"{UNKNOWN}: export the model without this custom operation, or {OWN_IMAGE} that has it "
    "(models.NAME.image)": [
        (
            lambda graph: graph.main("MyOp"),
            f"MyOp (node 'planted'): {NO_OPERATION}; the model does not load",
        )
    ],
    f"{UNKNOWN}: only TensorFlow 2.21 has it, for which there is no image: export the model without it, "
    f"or {OWN_IMAGE} (models.NAME.image)": [
        (served("DecodeJxl"), f"DecodeJxl {IN}: {NO_OPERATION}{LATE}")
    ],
    "model-op-removed: export the model again with a newer TensorFlow": [
        (
            tensor_array(26),
            f"TensorArrayV2 {IN}: is not allowed in graphs of GraphDef version 26 or newer, and this "
            f"graph has version 26{FAILS}",
        )
    ],
    AGAIN: [
        (matmul(), f"MatMul {IN}: lacks the attribute T, which has no default{LATE}"),
        (
            matmul(T=1, transpose_a=b"yes"),
            f"MatMul {IN}: transpose_a is string, and must be bool in TensorFlow 2.20{LATE}",
        ),
    ],
    f"{IGNORED}: compare a response of the container with a result of the exporting process; or "
    "export it with the TensorFlow of the image": [
        (
            served("MatMul", ("T", "odd"), T=1, odd=1),
            f"MatMul {IN}: TensorFlow 2.20 does not know its attribute odd (float32) and ignores it",
        )
    ],
    f"{STABLEHLO}: export it again with a jax version from the image's time, or with the native "
    "serialization version and the StableHLO version that the image reads": [
        (called_module(BYTECODE[6], 11), f"XlaCallModule {IN}: has version 11, and {RUNS}{FAILS}"),
        (called_module(BYTECODE[6], 3), f"XlaCallModule {IN}: has version 3, and {RUNS}{FAILS}"),
        (
            called_module(BYTECODE[6] + b"\0buffer_v1\0"),
            f"XlaCallModule {IN}: its StableHLO 0.15.0 has buffer_v1, which TensorFlow 2.20 lacks{FAILS}",
        ),
        (
            called_module(BYTECODE[6].replace(b"0.15.0", b"2.0.0")),
            f"XlaCallModule {IN}: its StableHLO 2.0.0 isn't guaranteed to run in TensorFlow 2.20, which "
            "has StableHLO 1",
        ),
    ],
    f'{PLATFORM}: export it again with native_serialization_platforms=("cpu", "cuda") of jax2tf.convert, '
    "or choose an instance type with a GPU": [
        (
            called_module(BYTECODE[6], platforms=texts(b"CUDA", b"TPU")),
            f"XlaCallModule {IN}: its module is for CUDA, TPU, and an instance type without a GPU is "
            f"CPU{FAILS}",
        )
    ],
    "model-needs-python: write it with TensorFlow's operations instead of tf.py_function and "
    "tf.numpy_function, or do it in transforms.py or inference.py of the code folder": [
        (
            lambda graph: graph.main("PyFunc", **PYTHON),
            f"PyFunc (node 'planted'): {NO_PYTHON}; the model does not load",
        ),
        (served("PyFunc", **PYTHON), f"PyFunc {IN}: {NO_PYTHON}{FAILS}"),
    ],
    f"{OUTSIDE}: export it as an asset (tf.saved_model.Asset), or put it into the archive and name it "
    "by /opt/ml/model/…": [
        (
            lambda graph: graph.served_file("ReadFile", b"/etc/words"),
            f"ReadFile {IN}: needs '/etc/words': a file that is not an asset of the model, which the "
            "container may not have",
        ),
        (
            lambda graph: graph.served_file("ReadFile", b"s3://bucket/words"),
            f"ReadFile {IN}: needs 's3://bucket/words': the network, which the container may not have",
        ),
        (
            served("ReadFile"),
            f"ReadFile {IN}: reads a file whose name the graph computes, and the archive has no assets",
        ),
    ],
    "model-graph-version: export it again with the TensorFlow of the image": [
        (
            versions(min_consumer=READER + 1),
            "the graph requires a TensorFlow that reads version 2289 of GraphDef (min_consumer), and "
            "2.20 reads up to 2288: the model does not load",
        )
    ],
}
MATMUL_TYPES = (
    "bfloat16, float16, float32, float64, int32, int64, uint8, uint16, uint32, uint64, complex64, "
    "complex128"
)


def told(folder: Path, plant: Plant, version: str = "2.20") -> tuple[str, str, str]:
    graph = Graph(folder)
    plant(graph)
    (fault,) = faults(graph, version)
    return fault.problem, fault.allowed, f"{fault.rule}: {fault.remedy}"


def test_a_fault_says_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    none = "no image supports it"
    for remedy, rows in FAULTS.items():
        for plant, problem in rows:
            assert told(tmp_path, plant) == (problem, none, remedy)
    types = f"T is string, and must be one of {MATMUL_TYPES} in TensorFlow 2.12{LATE}"
    assert told(tmp_path, matmul(T=7), "2.12") == (f"MatMul {IN}: {types}", none, AGAIN)


def test_a_fault_names_the_images_that_take_it_or_the_other_kind_of_machine(tmp_path: Path) -> None:
    bytecode = (
        f"XlaCallModule {IN}: its module is MLIR bytecode 6 (StableHLO 0.15.0), and TensorFlow 2.14 "
        f"reads up to 4{FAILS}"
    )
    bad = "the graph names 2.20 in bad_consumers, which must not read it: the model does not load"
    for rule, plant, version, problem, images in [
        (STABLEHLO, called_module(BYTECODE[6], 8), "2.14", bytecode, "2.16, 2.18, 2.19, 2.20"),
        ("model-graph-version", versions(bad_consumers=[READER]), "2.20", bad,
         "2.12, 2.13, 2.14, 2.16, 2.18, 2.19"),
    ]:  # fmt: skip
        remedy = f'{rule}: set tensorflow = "{images[-4:]}"'
        assert told(tmp_path, plant, version) == (
            problem, f"the images of TensorFlow {images}", remedy,
        )  # fmt: skip

    graph = Graph(tmp_path / "cpu")
    called_module(BYTECODE[6], platforms=texts(b"CPU"))(graph)
    (fault,) = faults(graph, cpu=False)
    assert "for CPU, and an instance type with a GPU is CUDA" in fault.problem
    assert fault.remedy.endswith("or choose an instance type without a GPU")


def test_a_fault_of_several_nodes_is_told_once_and_two_are_two(tmp_path: Path) -> None:
    graph = Graph(tmp_path / "1")
    for kind in (1, 2):
        graph.served("MatMul", types=("T",), T=kind, odd=1)
    assert rules(graph) == ["model-op-attribute-ignored"]
    graph.served("MatMul", types=("T",), T=1, odd=1)
    graph.served("MatMul", types=("T",), T=7)
    assert rules(graph) == ["model-op-attribute-ignored", "model-op-attribute"]


def found_by_check(environment: Environment, text: str = VALID) -> list[str]:
    return [finding.rule for finding in check(environment(text))]


def test_check_finds_what_is_planted(environment: Environment, project: Path) -> None:
    by_rule = {key.partition(": ")[0]: rows[0][0] for key, rows in FAULTS.items()}
    by_rule |= {rule: plant for plant, image, rule in JUDGED if rule and not image}
    assert len(by_rule) == 11
    for rule, plant in by_rule.items():
        graph = Graph(project / "model" / "1")
        plant(graph)
        graph.write()
        assert found_by_check(environment) == [rule]


def test_an_operation_is_judged_by_the_image_and_the_types_of_the_file(
    environment: Environment, graph: Graph
) -> None:
    graph.served("MyOp")
    graph.write()
    found = check_all(environment(VALID.replace('"2.20"', '"2.11"')))
    skipped = [one.rule for one in found if one.severity is Severity.NOT_CHECKED]
    ids = [rule.id for rule in RULES if rule.id.startswith("model-op")]
    assert [one for one in skipped if one.startswith("model-op")] == ids

    own = 'image = "111111111111.dkr.ecr.eu-west-1.amazonaws.com/serving:1"\n'
    text = VALID.replace('tensorflow = "2.20"\n', f'tensorflow = "2.20"\n{own}')
    assert "model-op-unknown" not in found_by_check(environment, text)

    pools = "".join(
        f'[[variants.primary.instance_pools]]\ninstance_type = "{each}"\n'
        for each in ("ml.c5.xlarge", "ml.m5.xlarge")
    )
    text = VALID.replace('instance_type = "ml.c5.xlarge"\n', pools)
    assert "model-op-unknown" in found_by_check(environment, text)

    text = VALID + '[acknowledge]\n"model-op-unknown:MyOp" = "our image of 2.20 links it"\n'
    assert [finding.severity for finding in check(environment(text))] == [Severity.ACKNOWLEDGED]


def test_a_graph_is_judged_once(environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[GraphOperations] = []

    def count(graph: GraphOperations, table: OpTable, *, cpu: bool) -> Iterator[GraphFault]:
        judged.append(graph)
        return find_graph_faults(graph, table, cpu=cpu)

    monkeypatch.setattr(base, "find_graph_faults", count)
    check(environment())
    assert len(judged) == 1
