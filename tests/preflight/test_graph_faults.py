"""What the TensorFlow of an image makes of a graph, on both sides of each bound.

The graphs are small and made here. That they fail where it is said, and run where nothing is, was
tried with the TensorFlow 2.12, 2.13, 2.14, 2.16, 2.20 and 2.21 of the wheels.
"""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.catalog.ops import OpTable, op_table
from infra.parameters.finding import Severity
from infra.preflight import candidate
from infra.preflight.check import RULES, check, check_all
from infra.preflight.graph_faults import GraphFault, graph_faults
from model_packaging.saved_model.operations import GraphOperations, operations
from servable_tensors import wire
from tests.conftest import VALID, Environment
from tests.preflight.graphs import Graph

MODULES = json.loads((Path(__file__).parents[2] / "scripts" / "stablehlo_modules.json").read_text())
BYTECODE = {int(name): base64.b64decode(one) for name, one in MODULES["modules"].items()}


@pytest.fixture
def graph(project: Path) -> Graph:
    return Graph(project / "model" / "1")


def table(version: str) -> OpTable:
    found = op_table(version)
    assert found is not None
    return found


def faults(graph: Graph, version: str = "2.20", *, cpu: bool = True) -> list[GraphFault]:
    graph.write()
    return list(graph_faults(operations(graph.folder), table(version), cpu=cpu))


def rules(graph: Graph, version: str = "2.20", *, cpu: bool = True) -> list[str]:
    return [fault.rule for fault in faults(graph, version, cpu=cpu)]


# Which operations.
def test_what_the_image_runs_is_no_fault(graph: Graph) -> None:
    assert rules(graph) == []
    graph.producer = 99_999
    assert rules(graph) == []
    graph.served("SimpleMLLoadModelFromPathWithHandle")
    assert rules(graph) == []

    graph.main("__inference_called")
    graph.called("NoOp")
    assert rules(graph) == []

    more = {"platforms": texts(b"CUDA"), "disabled_checks": texts(b"platform")}
    graph.served("XlaCallModule", **module(BYTECODE[6]) | more)
    assert rules(graph) == []

    graph.called("XlaSetBound", compiled=True)
    assert rules(graph) == []
    graph.served("InitializeTableFromTextFileV2", key_index=-2, value_index=-1)
    assert rules(graph) == []


@pytest.mark.parametrize(("version", "found"), [("2.20", ["model-op-unknown"]), ("2.21", [])])
def test_an_operation_of_a_newer_tensorflow_is_unknown_to_the_image(
    graph: Graph, version: str, found: list[str]
) -> None:
    graph.served("DecodeJxl")
    assert rules(graph, version) == found


@pytest.mark.parametrize("version", ["2.12", "2.20"])
def test_the_operations_of_tensorflow_text_are_linked(graph: Graph, version: str) -> None:
    graph.served("WordpieceTokenizeWithOffsets", **_wordpiece())
    assert rules(graph, version) == []


def _wordpiece() -> dict[str, Any]:
    return {"suffix_indicator": b"##", "max_bytes_per_word": 100, "use_unknown_token": True,
            "unknown_token": b"[UNK]", "output_row_partition_type": b"row_splits"}  # fmt: skip


@pytest.mark.parametrize(
    ("place", "found"),
    [("main", ["model-op-unknown"]), ("unused", []), ("called", ["model-op-unknown"])],
)
def test_only_what_is_called_is_looked_at(graph: Graph, place: str, found: list[str]) -> None:
    nodes = {"main": graph.main, "unused": graph.unused, "called": graph.called}
    nodes[place]("MyOp")
    assert rules(graph) == found


def test_a_fault_names_operation_function_images_and_remedy(graph: Graph) -> None:
    graph.served("MyOp")
    (found,) = faults(graph)
    assert vars(found) == {
        "rule": "model-op-unknown",
        "given": "MyOp",
        "problem": "MyOp (node 'planted') in function '__inference_serve': TensorFlow Serving 2.20 has "
        "no such operation; the model does not load, or its first request fails",
        "allowed": "no image takes it",
        "remedy": "export the model without this custom operation, or name your own image "
        "that has it (models.NAME.image)",
    }


def test_the_images_that_take_it_are_named(graph: Graph) -> None:
    graph.served("FFTND", Tcomplex=8)
    (found,) = faults(graph, "2.13", cpu=False)
    assert (found.allowed, found.remedy) == (
        "the images of TensorFlow 2.16, 2.18, 2.19, 2.20",
        'set tensorflow = "2.20"',
    )


def test_a_tensorrt_engine_is_not_judged_on_a_gpu(graph: Graph) -> None:
    graph.served("TRTEngineOp")
    assert (rules(graph, cpu=True), rules(graph, cpu=False)) == (["model-op-unknown"], [])


# Attributes.


@pytest.mark.parametrize(
    ("attributes", "found"),
    [
        ({"T": 1}, []),
        ({"T": 7}, ["model-op-attribute"]),
        ({}, ["model-op-attribute"]),
        ({"T": 1, "transpose_a": True}, []),
        ({"T": 1, "transpose_a": b"yes"}, ["model-op-attribute"]),
        ({"T": 1, "made_up": b"yes"}, ["model-op-attribute-ignored"]),
        ({"T": 1, "_made_up": b"yes"}, []),
    ],
)
def test_attributes_are_held_against_the_operation(
    graph: Graph, attributes: dict[str, Any], found: list[str]
) -> None:
    graph.served("MatMul", types=("T",), **attributes)
    assert rules(graph) == found


@pytest.mark.parametrize(("value", "found"), [(False, []), (True, ["model-op-attribute-ignored"])])
def test_a_newer_attribute_with_its_default_changes_nothing(
    graph: Graph, value: bool, found: list[str]
) -> None:
    graph.served("MatMul", types=("T",), T=1, grad_a=value)
    assert rules(graph, "2.12") == found


@pytest.mark.parametrize(("size", "found"), [(1, []), (0, ["model-op-attribute"])])
def test_a_list_has_as_many_as_it_must(graph: Graph, size: int, found: list[str]) -> None:
    graph.served("IdentityN", types=("T",), T=[1] * size)
    assert rules(graph) == found


# Versions of GraphDef.


@pytest.mark.parametrize(("above", "found"), [(0, []), (1, ["model-graph-version"])])
def test_a_graph_may_ask_for_the_images_reader(graph: Graph, above: int, found: list[str]) -> None:
    graph.min_consumer = table("2.20").graph_def + above
    assert rules(graph) == found


def test_a_graph_may_name_readers_that_are_bad(graph: Graph) -> None:
    graph.bad_consumers = [table("2.20").graph_def]
    assert (rules(graph), rules(graph, "2.19")) == (["model-graph-version"], [])


@pytest.mark.parametrize(("producer", "found"), [(25, []), (26, ["model-op-removed"])])
def test_an_operation_is_taken_out_of_newer_graphs(
    graph: Graph, producer: int, found: list[str]
) -> None:
    graph.producer = producer
    graph.served("TensorArrayV2", types=("dtype",), dtype=1)
    assert rules(graph) == found


# StableHLO.


def module(body: bytes, version: int = 9) -> dict[str, Any]:
    return {
        "module": body,
        "version": version,
        "Sout": [],
        "Tout": [],
        "Tin": [],
        "dim_args_spec": [],
    }


@pytest.mark.parametrize(
    ("version", "of", "found"),
    [
        (10, "2.20", []),
        (11, "2.20", ["model-stablehlo-version"]),
        (10, "2.16", ["model-stablehlo-version"]),
    ],
)
def test_a_version_of_xla_call_module_is_run_up_to_the_images(
    graph: Graph, version: int, of: str, found: list[str]
) -> None:
    graph.served("XlaCallModule", **module(BYTECODE[6], version))
    assert rules(graph, of) == found


def test_a_version_that_is_no_number_is_a_bad_attribute(graph: Graph) -> None:
    graph.served("XlaCallModule", **module(BYTECODE[6]) | {"version": b"ten"})
    assert rules(graph) == ["model-op-attribute"]


def test_a_module_that_is_too_new_is_one_fault(graph: Graph) -> None:
    graph.served("XlaCallModule", **module(BYTECODE[6], 10), use_shardy_partitioner=True)
    assert rules(graph, "2.16") == ["model-stablehlo-version"]


@pytest.mark.parametrize(("bytecode", "found"), [(4, []), (6, ["model-stablehlo-version"])])
def test_bytecode_is_read_up_to_the_images_version(
    graph: Graph, bytecode: int, found: list[str]
) -> None:
    graph.served("XlaCallModule", **module(BYTECODE[bytecode], 8))
    assert rules(graph, "2.14") == found


@pytest.mark.parametrize(
    ("name", "found"), [(b"add_v1", []), (b"buffer_v1", ["model-stablehlo-version"])]
)
def test_an_operation_of_stablehlo_that_the_image_lacks_is_found(
    graph: Graph, name: bytes, found: list[str]
) -> None:
    graph.served("XlaCallModule", **module(BYTECODE[6] + b"\0" + name + b"\0"))
    assert rules(graph) == found


@pytest.mark.parametrize(
    ("version", "found"), [(b"1.99.0", []), (b"9.0.0", ["model-stablehlo-version"])]
)
def test_a_newer_stablehlo_of_known_operations_runs(
    graph: Graph, version: bytes, found: list[str]
) -> None:
    graph.served("XlaCallModule", **module(BYTECODE[6].replace(b"0.15.0", version)))
    assert rules(graph) == found


def texts(*several: bytes) -> Any:
    """A list of strings, as an attribute."""
    return wire.AttrValue(list=wire.AttrValue.ListValue(s=several))


@pytest.mark.parametrize(
    ("platforms", "cpu", "found"),
    [
        ([b"CPU"], True, []),
        ([b"CUDA"], True, ["model-platform"]),
        ([b"CUDA"], False, []),
        ([b"CPU"], False, ["model-platform"]),
        ([b"CPU", b"CUDA"], True, []),
        ([b"CPU", b"CUDA"], False, []),
        ([], True, []),
    ],
)
def test_a_module_runs_on_the_platforms_that_it_names(
    graph: Graph, platforms: list[bytes], cpu: bool, found: list[str]
) -> None:
    graph.served("XlaCallModule", **module(BYTECODE[6]) | {"platforms": texts(*platforms)})
    assert rules(graph, cpu=cpu) == found


# What is not there when a request comes.


@pytest.mark.parametrize("op", ["PyFunc", "PyFuncStateless", "EagerPyFunc"])
def test_a_python_function_stays_where_it_was(graph: Graph, op: str) -> None:
    graph.served(op, token=b"pyfunc_0", Tin=[1], Tout=[1])
    assert rules(graph) == ["model-needs-python"]


@pytest.mark.parametrize(("cpu", "found"), [(True, ["model-op-without-kernel"]), (False, [])])
def test_an_operation_without_a_cpu_kernel_needs_a_gpu(
    graph: Graph, cpu: bool, found: list[str]
) -> None:
    graph.served("CudnnRNNV3", types=("T",), T=1)
    assert rules(graph, cpu=cpu) == found


@pytest.mark.parametrize(("kind", "found"), [(1, []), (13, ["model-op-without-kernel"])])
def test_a_kernel_takes_some_types(graph: Graph, kind: int, found: list[str]) -> None:
    graph.served("Max", types=("T",), T=kind)
    assert rules(graph) == found


@pytest.mark.parametrize(
    ("op", "order", "cpu", "found"),
    [
        ("Conv2D", b"NCHW", True, ["model-channels-first"]),
        ("Conv2D", b"NHWC", True, []),
        ("Conv2D", b"NCHW", False, []),
        ("SpaceToDepth", b"NCHW", True, ["model-op-without-kernel"]),
        ("SpaceToDepth", b"NHWC", True, []),
    ],
)
def test_channels_first_needs_onednn_or_a_gpu(
    graph: Graph, op: str, order: bytes, cpu: bool, found: list[str]
) -> None:
    given = {"strides": [1] * 4, "padding": b"SAME"} if op == "Conv2D" else {"block_size": 2}
    graph.served(op, types=("T",), T=1, data_format=order, **given)
    assert rules(graph, cpu=cpu) == found


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (b"/home/me/words.txt", ["model-reads-outside"]),
        (b"s3://models/words.txt", ["model-reads-outside"]),
        (b"/opt/ml/model/words.txt", []),
    ],
)
def test_a_file_that_is_not_in_the_archive_is_found(
    graph: Graph, path: bytes, found: list[str]
) -> None:
    graph.served_file("ReadFile", path)
    assert rules(graph) == found


# As rules.


def found_by_check(environment: Environment, text: str = VALID) -> list[str]:
    return [finding.rule for finding in check(environment(text))]


@pytest.mark.parametrize(
    ("plant", "rule"),
    [
        (lambda graph: graph.served("MyOp"), "model-op-unknown"),
        (lambda graph: graph.served("MatMul"), "model-op-attribute"),
        (
            lambda graph: graph.served("MatMul", types=("T",), T=1, odd=1),
            "model-op-attribute-ignored",
        ),
        (lambda graph: setattr(graph, "min_consumer", 99_999), "model-graph-version"),
        (
            lambda graph: graph.served("TensorArrayV2", types=("dtype",), dtype=1),
            "model-op-removed",
        ),
        (lambda graph: graph.served("XlaCallModule", **module(b"", 99)), "model-stablehlo-version"),
        (lambda graph: graph.served("PyFunc", token=b"f", Tin=[], Tout=[]), "model-needs-python"),
        (lambda graph: graph.served("CudnnRNNV3", types=("T",), T=1), "model-op-without-kernel"),
        (lambda graph: graph.served_file("ReadFile", b"/words.txt"), "model-reads-outside"),
    ],
)
def test_check_finds_what_is_planted(
    environment: Environment, graph: Graph, plant: Callable[[Graph], None], rule: str
) -> None:
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
    assert [rule.id for rule in RULES if rule.id.startswith("model-op")] == [
        one for one in skipped if one.startswith("model-op")
    ]

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


def test_a_graph_is_judged_once_for_all_rules(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[GraphOperations] = []

    def count(graph: GraphOperations, table: OpTable, *, cpu: bool) -> Iterator[GraphFault]:
        judged.append(graph)
        return graph_faults(graph, table, cpu=cpu)

    monkeypatch.setattr(candidate, "graph_faults", count)
    check(environment())
    assert len(judged) == 1
