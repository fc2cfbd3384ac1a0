"""What is sent, and the endpoint that answers it: the double, with a handler that does nothing.

What the model would do is not the client's. The handler reads the body and gives an answer
that lies ready, in the form that was asked for.
"""

import io
import json
import tarfile
from pathlib import Path

import numpy as np

from servable_tensors import tensors, wire

ROOT = Path(__file__).resolve().parents[2]
SEED = 0
COLUMNS = 256
SMALL_ROWS, LARGE_ROWS = 1, 2230
# Between the bodies of one row and those of 2,230, in whatever form.
LARGE_FROM_BYTES = 100_000

HANDLER = """
from pathlib import Path

HERE = Path(__file__).parent / "answers"
ANSWERS = {file.name: file.read_bytes() for file in HERE.iterdir()}
FORMS = {"application/x-protobuf": "protobuf", "application/x-npy": "npy"}


def handler(data, context):
    size = "large" if len(data.read()) > %d else "small"
    wanted = (context.accept_header or "").partition(",")[0]
    form = FORMS.get(wanted, "json")
    return ANSWERS[f"{size}.{form}"], wanted if form != "json" else "application/json"
"""


def rows(count: int) -> tensors.Array:
    """As in the other benchmarks: float32 between 0 and 1, rounded to 4 decimals."""
    return np.round(np.random.default_rng(SEED).random((count, COLUMNS), dtype=np.float32), 4)


def answers() -> dict[str, bytes]:
    """One float32 for each row, in three forms."""
    found = {}
    for size, count in (("small", SMALL_ROWS), ("large", LARGE_ROWS)):
        output = np.random.default_rng(SEED).random(count, dtype=np.float32)
        response = wire.PredictResponse()
        response.outputs["prob"].CopyFrom(tensors.to_proto(output))
        file = io.BytesIO()
        np.save(file, output)
        found[f"{size}.protobuf"] = bytes(response.SerializeToString())
        found[f"{size}.npy"] = file.getvalue()
        found[f"{size}.json"] = json.dumps({"outputs": output.tolist()}).encode()
    return found


def pack(archive: Path) -> Path:
    files = {f"code/answers/{name}": content for name, content in answers().items()}
    files["code/inference.py"] = (HANDLER % LARGE_FROM_BYTES).encode()
    with tarfile.open(archive, "w:gz") as tar:
        # Some model must be there; nobody asks it.
        tar.add(ROOT / "examples" / "ranker" / "model" / "1", "ranker/1")
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive
