"""TensorFlow itself as the judge of checkpoints and vocabularies."""

import os
from pathlib import Path
from typing import Any

import pytest

from model_packaging.refusal import PackagingError
from model_packaging.saved_model.initialization import VocabularyTable
from model_packaging.saved_model.reading import read
from model_packaging.saved_model.variables import read_stored_variables
from tests.packaging.test_initialization import VOCABULARIES, WITH_VARIABLES

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def tensorflow() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    return tf


@pytest.mark.parametrize("export", WITH_VARIABLES, ids=lambda export: str(export.name))
def test_a_checkpoint_has_the_variables_that_tensorflow_reads(
    tensorflow: Any, export: Path
) -> None:
    reader = tensorflow.train.load_checkpoint(str(export / "1" / "variables" / "variables"))
    types = reader.get_variable_to_dtype_map()
    theirs = {
        key: (types[key].name, tuple(shape))
        for key, shape in reader.get_variable_to_shape_map().items()
    }
    ours = read_stored_variables(export / "1")
    assert {key: (each.dtype, each.shape) for key, each in ours.items()} == theirs


@pytest.mark.parametrize("export", WITH_VARIABLES[:5], ids=lambda export: str(export.name))
def test_what_is_intact_here_is_what_tensorflow_reads(tensorflow: Any, export: Path) -> None:
    reader = tensorflow.train.load_checkpoint(str(export / "1" / "variables" / "variables"))
    stored = read_stored_variables(export / "1")
    for key in stored:
        reader.get_tensor(key)  # raises DataLossError for a checksum that does not match
    assert all(variable.is_intact for variable in stored.values())


@pytest.mark.parametrize(("table", "text", "fault"), VOCABULARIES)
def test_tensorflow_fills_the_tables_that_are_not_refused(
    tensorflow: Any, tmp_path: Path, table: VocabularyTable, text: str, fault: str | None
) -> None:
    (tmp_path / "v").write_bytes(text.encode())
    kinds = {-2: tensorflow.string, -1: tensorflow.int64, 0: tensorflow.string, 1: tensorflow.int64}
    initializer = tensorflow.lookup.TextFileInitializer(
        str(tmp_path / "v"),
        kinds[table.key_column],
        table.key_column,
        kinds[table.value_column],
        table.value_column,
        vocab_size=table.lines if table.lines > 0 else None,
        delimiter=table.delimiter,
    )
    default = "" if table.value_column == -2 else -1
    try:
        tensorflow.lookup.StaticHashTable(initializer, default)
        filled = True
    except tensorflow.errors.OpError:
        filled = False
    assert filled is (fault is None)


def test_a_sparse_placeholder_of_tensorflow_1_makes_no_signature_to_call(
    tensorflow: Any, tmp_path: Path
) -> None:
    v1 = tensorflow.compat.v1
    with tensorflow.Graph().as_default(), v1.Session() as session:
        sparse = v1.sparse_placeholder(tensorflow.float32, [None, 4], name="x")
        y = v1.sparse.to_dense(sparse)
        v1.saved_model.simple_save(session, str(tmp_path / "1"), {"x": sparse}, {"y": y})
    with pytest.raises(PackagingError, match="no signature that a request could call"):
        read(tmp_path / "1")
