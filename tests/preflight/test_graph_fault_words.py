"""The words of a graph's faults: the operation, what is wrong, the images that take it, the remedy."""

from pathlib import Path

from tests.preflight.graphs import Graph
from tests.preflight.test_graph_faults import (
    BYTECODE,
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

AGAIN = "export the model again with the TensorFlow of the image"
STABLEHLO = (
    "export it again with a jax version from the image's time, or with the native serialization "
    "version and the StableHLO version that the image reads"
)
PYTHON = (
    "write it with TensorFlow's operations instead of tf.py_function and tf.numpy_function, or do it "
    "in transforms.py or inference.py of the code folder"
)
ASSET = (
    "export it as an asset (tf.saved_model.Asset), or put it into the archive and name it by "
    "/opt/ml/model/…"
)
SERVED = "in function '__inference_serve': "
LATE = "; the model does not load, or its first request fails"
FAILS = "; the request that reaches it fails"


MATMUL_TYPES = (
    "bfloat16, float16, float32, float64, int32, int64, uint8, uint16, uint32, uint64, complex64, "
    "complex128"
)


def planted(op: str, words: str) -> str:
    return f"{op} (node 'planted') {SERVED}{words}"


def xla(words: str) -> str:
    return planted("XlaCallModule", words)


# What is planted, in which image's TensorFlow, the problem, the remedy; without an image that takes it.
FAULTS: list[tuple[Plant, str, str, str]] = [
    (
        lambda graph: graph.main("MyOp"),
        "2.20",
        "MyOp (node 'planted'): TensorFlow Serving 2.20 has no such operation; the model does not load",
        "export the model without this custom operation, or name your own image that has it "
        "(models.NAME.image)",
    ),
    (
        served("DecodeJxl"),
        "2.20",
        planted("DecodeJxl", f"TensorFlow Serving 2.20 has no such operation{LATE}"),
        "only TensorFlow 2.21 has it, for which there is no image: export the model without it, or "
        "name your own image (models.NAME.image)",
    ),
    (
        tensor_array(27),
        "2.20",
        planted(
            "TensorArrayV2",
            "is not allowed in graphs of GraphDef version 26 or newer, and this graph has version "
            f"27{FAILS}",
        ),
        "export the model again with a newer TensorFlow",
    ),
    (
        matmul(),
        "2.20",
        planted("MatMul", f"lacks the attribute T, which has no default{LATE}"),
        AGAIN,
    ),
    (
        matmul(T=1, transpose_a=b"yes"),
        "2.20",
        planted("MatMul", f"transpose_a is string, and must be bool in TensorFlow 2.20{LATE}"),
        AGAIN,
    ),
    (
        matmul(T=7),
        "2.12",
        planted(
            "MatMul", f"T is string, and must be one of {MATMUL_TYPES} in TensorFlow 2.12{LATE}"
        ),
        AGAIN,
    ),
    (
        served("MatMul", ("T", "odd"), T=1, odd=1),
        "2.20",
        planted(
            "MatMul", "TensorFlow 2.20 does not know its attribute odd (float32) and ignores it"
        ),
        "compare a response of the container with a result of the exporting process; or "
        "export it with the TensorFlow of the image",
    ),
    (
        called_module(BYTECODE[6], 11),
        "2.20",
        xla(f"has version 11, and TensorFlow 2.20 runs versions 4 to 10{FAILS}"),
        STABLEHLO,
    ),
    (
        called_module(BYTECODE[6], 3),
        "2.20",
        xla(f"has version 3, and TensorFlow 2.20 runs versions 4 to 10{FAILS}"),
        STABLEHLO,
    ),
    (
        called_module(BYTECODE[6] + b"\0buffer_v1\0"),
        "2.20",
        xla(f"its StableHLO 0.15.0 has buffer_v1, which TensorFlow 2.20 lacks{FAILS}"),
        STABLEHLO,
    ),
    (
        called_module(BYTECODE[6].replace(b"0.15.0", b"2.0.0")),
        "2.20",
        xla(
            "its StableHLO 2.0.0 isn't guaranteed to run in TensorFlow 2.20, which has StableHLO 1"
        ),
        STABLEHLO,
    ),
    (
        called_module(BYTECODE[6], platforms=texts(b"CUDA", b"TPU")),
        "2.20",
        xla(f"its module is for CUDA, TPU, and an instance type without a GPU is CPU{FAILS}"),
        'export it again with native_serialization_platforms=("cpu", "cuda") of jax2tf.convert, or '
        "choose an instance type with a GPU",
    ),
    (
        lambda graph: graph.main("PyFunc", token=b"f", Tin=[], Tout=[]),
        "2.20",
        "PyFunc (node 'planted'): calls a Python function, and TensorFlow Serving has no Python; "
        "the model does not load",
        PYTHON,
    ),
    (
        served("PyFunc", token=b"f", Tin=[], Tout=[]),
        "2.20",
        planted("PyFunc", f"calls a Python function, and TensorFlow Serving has no Python{FAILS}"),
        PYTHON,
    ),
    (
        lambda graph: graph.served_file("ReadFile", b"/etc/words"),
        "2.20",
        planted(
            "ReadFile",
            "needs '/etc/words': a file that is not an asset of the model, which the container may "
            "not have",
        ),
        ASSET,
    ),
    (
        lambda graph: graph.served_file("ReadFile", b"s3://bucket/words"),
        "2.20",
        planted(
            "ReadFile", "needs 's3://bucket/words': the network, which the container may not have"
        ),
        ASSET,
    ),
    (
        served("ReadFile"),
        "2.20",
        planted(
            "ReadFile", "reads a file whose name the graph computes, and the archive has no assets"
        ),
        ASSET,
    ),
    (
        versions(min_consumer=99_999),
        "2.20",
        "the graph requires a TensorFlow that reads version 99999 of GraphDef (min_consumer), and "
        "2.20 reads up to 2288: the model does not load",
        "export it again with the TensorFlow of the image",
    ),
]


def test_a_fault_says_what_is_wrong_and_what_to_do(tmp_path: Path) -> None:
    for number, (plant, version, problem, remedy) in enumerate(FAULTS):
        graph = Graph(tmp_path / str(number))
        plant(graph)
        (fault,) = faults(graph, version)
        assert (fault.problem, fault.allowed, fault.remedy) == (
            problem,
            "no image supports it",
            remedy,
        )


def test_a_fault_names_the_images_that_take_it_or_the_other_kind_of_machine(tmp_path: Path) -> None:
    bytecode = (
        "its module is MLIR bytecode 6 (StableHLO 0.15.0), and TensorFlow 2.14 reads up to "
        f"4{FAILS}"
    )
    bad = "the graph names 2.20 in bad_consumers, which must not read it: the model does not load"
    for number, (plant, version, problem, images) in enumerate(
        [
            (called_module(BYTECODE[6], 8), "2.14", xla(bytecode), "2.16, 2.18, 2.19, 2.20"),
            (versions(bad_consumers=[READER]), "2.20", bad, "2.12, 2.13, 2.14, 2.16, 2.18, 2.19"),
        ]
    ):
        graph = Graph(tmp_path / str(number))
        plant(graph)
        (fault,) = faults(graph, version)
        assert (fault.problem, fault.allowed, fault.remedy) == (
            problem,
            f"the images of TensorFlow {images}",
            f'set tensorflow = "{images[-4:]}"',
        )

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
