"""What is read of a SavedModel without TensorFlow is what TensorFlow says of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from model_packaging.saved_model import SavedModelInfo, TensorInfo, read
from tests.packaging.conftest import Breakable

pytestmark = pytest.mark.long  # TensorFlow writes the models
RANKER = Path(__file__).parents[2] / "examples" / "ranker" / "model" / "1"
EVERY_KIND = ["keras", "module", "frozen", "builder"]


def said(saved_models: Path, name: str) -> Any:
    return json.loads((saved_models / "said.json").read_text())[name]


def as_said(tensors: Any) -> dict[str, Any]:
    return {
        name: [tensor.name, tensor.dtype, None if tensor.shape is None else list(tensor.shape)]
        for name, tensor in tensors.items()
    }


@pytest.mark.parametrize("name", EVERY_KIND)
def test_signatures_version_and_variables_are_those_that_tensorflow_reads(
    saved_models: Path, name: str
) -> None:
    found = {
        signature: {"inputs": as_said(one.inputs), "outputs": as_said(one.outputs)}
        for signature, one in read(saved_models / name / "1").signatures.items()
    }
    assert found == said(saved_models, name)["signatures"]
    info = read(saved_models / name / "1")
    assert info.tensorflow_version == said(saved_models, name)["tensorflow_version"]
    assert read(saved_models / name / "1").has_variables == (name != "frozen")

    files = (saved_models / name / "1" / "variables").glob("variables.data-*")
    expected = sum(file.stat().st_size for file in files)
    assert read(saved_models / name / "1").variable_bytes == expected


def test_assets_and_warm_up_requests_are_noticed(saved_models: Path, breakable: Breakable) -> None:
    assert read(saved_models / "module" / "1").assets == ("words.txt",)

    version = breakable("keras")
    (version / "assets.extra").mkdir()
    (version / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"")
    assert read(version).has_warm_up


def ranker() -> SavedModelInfo:
    return read(RANKER)


def test_the_ranker_has_the_tag_serve_and_39_columns_with_any_number_of_rows() -> None:
    assert ranker().tags == {"serve"}
    assert ranker().signatures["serving_default"].inputs["feat_ids"] == TensorInfo(
        name="serving_default_feat_ids:0", dtype="int64", shape=(None, 39)
    )


def test_reading_imports_neither_tensorflow_nor_numpy() -> None:
    code = (
        "import sys\nfrom pathlib import Path\nfrom model_packaging.saved_model import read\n"
        f"read(Path({str(RANKER)!r}))\n"
        "print([name for name in ('tensorflow', 'numpy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_constant_of_a_gigabyte_is_stepped_over(tmp_path: Path, saved_models: Path) -> None:
    """One node with a huge attribute, in a sparse file; the reader may use 100 MiB more."""
    whole = (saved_models / "frozen" / "1" / "saved_model.pb").read_bytes()
    size = 1 << 30
    node = b"\x0a\x01n\x12\x05Const\x2a" + varint(size)
    graph = b"\x12" + varint(len(whole_graph := b"\x0a" + varint(len(node) + size) + node) + size)
    meta = whole[whole.index(b"\x12") :]
    start = 1 + len_of_varint(meta[1:])
    rest = meta[start:]
    header = b"\x08\x01\x12" + varint(len(graph) + len(whole_graph) + size + len(rest))
    file = tmp_path / "1" / "saved_model.pb"
    file.parent.mkdir()
    with file.open("wb") as opened:
        opened.write(header + graph + whole_graph)
        opened.seek(size, 1)
        opened.write(rest)
    code = (
        "import resource, sys\nfrom pathlib import Path\n"
        "from model_packaging.saved_model import read\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"assert read(Path({str(file.parent)!r})).signatures\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) * 1024 <= 100 << 20


def varint(number: int) -> bytes:
    parts = []
    while number >= 0x80:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def len_of_varint(data: bytes) -> int:
    return next(at for at, byte in enumerate(data) if byte < 0x80) + 1
