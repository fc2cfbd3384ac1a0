"""The words of a graph's faults: the operation, what is wrong, the images that take it, the remedy."""

from pathlib import Path

from tests.preflight.graphs import Graph
from tests.preflight.test_graph_faults import (
    BYTECODE,
    PYTHON,
    READER,
    Plant,
    called_module,
    faults,
    matmul,
    rules,
    served,
    tensor_array,
    texts,
    versions,
)  # fmt: skip

IN = "(node 'planted') in function '__inference_serve'"
LATE = "; the model does not load, or its first request fails"
FAILS = "; the request that reaches it fails"
NO_OPERATION = "TensorFlow Serving 2.20 has no such operation"
NO_PYTHON = "calls a Python function, and TensorFlow Serving has no Python"
RUNS = "TensorFlow 2.20 runs versions 4 to 10"
OWN_IMAGE = "name your own image"
AGAIN = "export the model again with the TensorFlow of the image"
# The remedy, what is planted in 2.20, and the problem; without an image that takes it.
FAULTS: dict[str, list[tuple[Plant, str]]] = {
    f"export the model without this custom operation, or {OWN_IMAGE} that has it "
    "(models.NAME.image)": [
        (
            lambda graph: graph.main("MyOp"),
            f"MyOp (node 'planted'): {NO_OPERATION}; the model does not load",
        )
    ],
    "only TensorFlow 2.21 has it, for which there is no image: export the model without it, or "
    f"{OWN_IMAGE} (models.NAME.image)": [
        (served("DecodeJxl"), f"DecodeJxl {IN}: {NO_OPERATION}{LATE}")
    ],
    "export the model again with a newer TensorFlow": [
        (
            tensor_array(27),
            f"TensorArrayV2 {IN}: is not allowed in graphs of GraphDef version 26 or newer, and this "
            f"graph has version 27{FAILS}",
        )
    ],
    AGAIN: [
        (matmul(), f"MatMul {IN}: lacks the attribute T, which has no default{LATE}"),
        (
            matmul(T=1, transpose_a=b"yes"),
            f"MatMul {IN}: transpose_a is string, and must be bool in TensorFlow 2.20{LATE}",
        ),
    ],
    "compare a response of the container with a result of the exporting process; or "
    "export it with the TensorFlow of the image": [
        (
            served("MatMul", ("T", "odd"), T=1, odd=1),
            f"MatMul {IN}: TensorFlow 2.20 does not know its attribute odd (float32) and ignores it",
        )
    ],
    "export it again with a jax version from the image's time, or with the native serialization "
    "version and the StableHLO version that the image reads": [
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
    'export it again with native_serialization_platforms=("cpu", "cuda") of jax2tf.convert, or '
    "choose an instance type with a GPU": [
        (
            called_module(BYTECODE[6], platforms=texts(b"CUDA", b"TPU")),
            f"XlaCallModule {IN}: its module is for CUDA, TPU, and an instance type without a GPU is "
            f"CPU{FAILS}",
        )
    ],
    "write it with TensorFlow's operations instead of tf.py_function and tf.numpy_function, or do it "
    "in transforms.py or inference.py of the code folder": [
        (
            lambda graph: graph.main("PyFunc", **PYTHON),
            f"PyFunc (node 'planted'): {NO_PYTHON}; the model does not load",
        ),
        (served("PyFunc", **PYTHON), f"PyFunc {IN}: {NO_PYTHON}{FAILS}"),
    ],
    "export it as an asset (tf.saved_model.Asset), or put it into the archive and name it by "
    "/opt/ml/model/…": [
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
    "export it again with the TensorFlow of the image": [
        (
            versions(min_consumer=99_999),
            "the graph requires a TensorFlow that reads version 99999 of GraphDef (min_consumer), and "
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
    return fault.problem, fault.allowed, fault.remedy


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
    for plant, version, problem, images in [
        (called_module(BYTECODE[6], 8), "2.14", bytecode, "2.16, 2.18, 2.19, 2.20"),
        (versions(bad_consumers=[READER]), "2.20", bad, "2.12, 2.13, 2.14, 2.16, 2.18, 2.19"),
    ]:
        allowed, remedy = f"the images of TensorFlow {images}", f'set tensorflow = "{images[-4:]}"'
        assert told(tmp_path, plant, version) == (problem, allowed, remedy)

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
