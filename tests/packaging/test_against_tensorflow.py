"""TensorFlow itself as the judge of signatures, checkpoints, vocabularies, and what nothing fills."""

import os
from pathlib import Path
from typing import Any

import pytest

from model_packaging.saved_model.initialization import VocabularyTable
from model_packaging.saved_model.operations import read_operations
from model_packaging.saved_model.reading import read
from model_packaging.saved_model.variables import read_stored_variables
from tests.exports.exports import MODELS, SERVED
from tests.packaging.conftest import refusal
from tests.packaging.test_operations import VOCABULARIES, WITH_VARIABLES
from tests.packaging.test_saved_model import VOCABULARY

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    return tf


def read_tensors(
    tensors: Any, tf: Any
) -> dict[str, tuple[str, str, tuple[int | None, ...] | None]]:
    """Name, type and shape of TensorFlow's own messages."""
    found = {}
    for key, one in tensors.items():
        sizes = tuple(None if dim.size < 0 else dim.size for dim in one.tensor_shape.dim)
        shape = None if one.tensor_shape.unknown_rank else sizes
        found[key] = (one.name, tf.dtypes.as_dtype(one.dtype).name, shape)
    return found


@pytest.mark.parametrize("export", [VOCABULARY, *(MODELS / name for name in SERVED)], ids=str)
def test_signatures_are_those_that_tensorflow_loads(tensorflow: Any, export: Path) -> None:
    info = read(export / "1")
    v1 = tensorflow.compat.v1
    with tensorflow.Graph().as_default(), v1.Session() as session:
        graph = v1.saved_model.load(session, ["serve"], str(export / "1"))
    assert info.tensorflow_version == graph.meta_info_def.tensorflow_version
    for name, ours in info.signatures.items():
        theirs = graph.signature_def[name]
        for tensors, read_here in ((theirs.inputs, ours.inputs), (theirs.outputs, ours.outputs)):
            found = {key: (one.name, one.dtype, one.shape) for key, one in read_here.items()}
            assert found == read_tensors(tensors, tensorflow)
    files = list((export / "1" / "variables").glob("variables.data-*"))
    assert info.variable_bytes == sum(file.stat().st_size for file in files)


@pytest.mark.parametrize("export", WITH_VARIABLES, ids=lambda export: str(export.name))
def test_a_checkpoint_has_the_variables_tensorflow_reads(tensorflow: Any, export: Path) -> None:
    reader = tensorflow.train.load_checkpoint(str(export / "1" / "variables" / "variables"))
    types = reader.get_variable_to_dtype_map()
    shapes = reader.get_variable_to_shape_map()
    theirs = {key: (types[key].name, tuple(shape)) for key, shape in shapes.items()}
    ours = read_stored_variables(export / "1")
    assert {key: (each.dtype, each.shape) for key, each in ours.items()} == theirs
    for key in ours:
        reader.get_tensor(key)  # raises DataLossError for a checksum that does not match
    assert all(variable.is_intact for variable in ours.values())


@pytest.mark.parametrize(("table", "text", "fault"), VOCABULARIES)
def test_tensorflow_fills_the_tables_that_are_not_refused(
    tensorflow: Any, tmp_path: Path, table: VocabularyTable, text: str, fault: str | None
) -> None:
    (tmp_path / "v").write_bytes(text.encode())
    kinds = {-2: tensorflow.string, -1: tensorflow.int64, 0: tensorflow.string, 1: tensorflow.int64}
    initializer = tensorflow.lookup.TextFileInitializer(
        str(tmp_path / "v"), kinds[table.key_column], table.key_column, kinds[table.value_column],
        table.value_column, vocab_size=table.lines if table.lines > 0 else None,
        delimiter=table.delimiter,
    )  # fmt: skip
    default = "" if table.value_column == -2 else -1
    try:
        tensorflow.lookup.StaticHashTable(initializer, default)
        filled = True
    except tensorflow.errors.OpError:
        filled = False
    assert filled is (fault is None)


def test_a_sparse_placeholder_makes_no_signature_to_call(tensorflow: Any, tmp_path: Path) -> None:
    v1 = tensorflow.compat.v1
    with tensorflow.Graph().as_default(), v1.Session() as session:
        sparse = v1.sparse_placeholder(tensorflow.float32, [None, 4], name="x")
        y = v1.sparse.to_dense(sparse)
        v1.saved_model.simple_save(session, str(tmp_path / "1"), {"x": sparse}, {"y": y})
    assert "no signature that a request could call" in refusal(read, tmp_path / "1")


@pytest.mark.parametrize("works", [False, True], ids=["fails", "works"])
def test_what_is_unfilled_is_what_fails_in_a_session_of_tensorflow(
    tensorflow: Any, tmp_path: Path, works: bool
) -> None:
    """Each model is written by TensorFlow or Keras, loaded as TensorFlow Serving does, and asked once."""
    from tests.packaging import unfilled_models

    for name, make in (unfilled_models.GOOD if works else unfilled_models.FAULTY).items():
        unfilled_models.write(make, tmp_path / name)
        verdict = read_operations(tmp_path / name).unfilled == ()
        assert (unfilled_models.serves(tmp_path / name), verdict) == (works, works), name
