"""Exports of forty kinds pass without a word; what is planted in ten of them is found, each time."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.finding import Finding
from infra.preflight.check import check
from tests.preflight.overlay import overlaid

pytestmark = pytest.mark.long
PLANTED = 10


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that good_exports.py writes, in a process of its own: Keras keeps state."""
    folder = tmp_path_factory.mktemp("exports")
    script = Path(__file__).with_name("good_exports.py")
    subprocess.run([sys.executable, str(script), str(folder)], check=True, capture_output=True)
    return folder


def names(exports: Path) -> list[str]:
    return sorted(file.parent.name for file in exports.glob("*/1"))


def said(project: Path, saved_model: Path) -> list[Finding]:
    lines = f'models.ranker.saved_model = "{saved_model}"\nmodels.ranker.tensorflow = "2.20"'
    return check(overlaid(project, lines))


def _first_body(graph: Any) -> tuple[str, Any]:
    """A function that the graph calls, or the graph itself where it calls none."""
    called = {one.attr["f"].func.name for one in graph.node if "f" in one.attr}
    bodies = {one.signature.name: one.node_def for one in graph.library.function}
    name = next((one for one in sorted(called) if one in bodies), "")
    return name, bodies.get(name, graph.node)


def op(graph: Any) -> str:
    name, body = _first_body(graph)
    body.add(name="planted", op="Addons>Planted")
    return name


def attribute(graph: Any) -> str:
    name, body = _first_body(graph)
    body[0].attr["planted"].i = 7
    return name


def missing(graph: Any) -> str:
    name, body = _first_body(graph)
    body.add(name="planted", op="Identity")
    return name


def callback(graph: Any) -> str:
    name, body = _first_body(graph)
    node = body.add(name="planted", op="EagerPyFunc")
    node.attr["token"].s = b"pyfunc_0"
    for empty in ("Tout", "Tin"):
        node.attr[empty].list.SetInParent()
    return name


PLANTS: dict[str, Callable[[Any], str]] = {
    "model-op-unknown": op,
    "model-op-attribute-ignored": attribute,
    "model-op-attribute": missing,
    "model-needs-python": callback,
}


def test_forty_good_exports_pass_without_a_word(project: Path, exports: Path) -> None:
    found = {name: said(project, exports / name) for name in names(exports)}
    assert (len(found), {name: one for name, one in found.items() if one}) == (40, {})


@pytest.mark.parametrize("rule", PLANTS)
def test_what_is_planted_in_ten_exports_is_found_with_its_function(
    project: Path, exports: Path, tmp_path: Path, rule: str
) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    missed = []
    for name in names(exports)[:: len(names(exports)) // PLANTED][:PLANTED]:
        folder = shutil.copytree(exports / name, tmp_path / name)
        file = folder / "1" / "saved_model.pb"
        saved_model = saved_model_pb2.SavedModel.FromString(file.read_bytes())
        where = PLANTS[rule](saved_model.meta_graphs[0].graph_def)
        file.write_bytes(saved_model.SerializeToString())
        found = said(project, folder)
        rules = [one.rule for one in found]
        if rules != [rule] or where not in found[0].problem or not found[0].remedy:
            missed.append((name, [str(one) for one in found]))
    assert missed == []


def test_a_real_numpy_function_is_found(project: Path, tmp_path: Path) -> None:
    script = (
        "import sys, numpy, tensorflow as tf\n"
        "module = tf.Module()\n"
        "module.serve = tf.function(lambda x: tf.numpy_function(numpy.sin, [x], tf.float32), "
        "input_signature=[tf.TensorSpec([None], tf.float32)])\n"
        "tf.saved_model.save(module, sys.argv[1], signatures=module.serve)\n"
    )
    folder = tmp_path / "python"
    command = [sys.executable, "-c", script, str(folder / "1")]
    subprocess.run(command, check=True, capture_output=True)
    assert [one.rule for one in said(project, folder)] == ["model-needs-python"]
