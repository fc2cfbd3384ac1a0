"""Graphs that are not tagged for serving: the refusal stays one sentence, however many there are."""

from pathlib import Path

import pytest

from model_packaging.refusal import PackagingError
from model_packaging.saved_model import read
from servable_tensors import wire
from servable_tensors.wire import encode_varint


def problem_of(folder: Path, tags: list[list[str]]) -> str:
    """The refusal of a SavedModel that has an empty graph for each of these lists of tags."""
    graphs = [
        wire.MetaGraphDef(meta_info_def={"tags": some}).SerializeToString() if some else b""
        for some in tags
    ]
    content = b"".join(b"\x12" + encode_varint(len(graph)) + graph for graph in graphs)
    (folder / "saved_model.pb").write_bytes(b"\x08\x01" + content)
    with pytest.raises(PackagingError) as refused:
        read(folder)
    return refused.value.problem.partition("its graphs are tagged ")[2]


@pytest.mark.parametrize(
    ("tags", "shown"),
    [
        ([["train"]], "train"),
        ([["train", "gpu"], []], "gpu+train, nothing"),
        ([[]] * 30_000, "nothing"),
        ([[f"t{number}"] for number in range(5)], "t0, t1, t2, t3, t4"),
        ([[f"t{number}"] for number in range(6)], "t0, t1, t2, t3, t4 and 1 more"),
        ([["x" * 1_000]], "x" * 100),
    ],
    ids=["one", "two", "30,000 empty ones", "five", "six", "a long tag"],
)
def test_the_tags_in_a_refusal_are_few(tmp_path: Path, tags: list[list[str]], shown: str) -> None:
    assert problem_of(tmp_path, tags) == shown
