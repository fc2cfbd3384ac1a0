"""The archives that the suite's cases are about.

    python -m tests.conformance.archives plain.tar.gz coded.tar.gz

writes the two that another container, or an endpoint on AWS, serves for --base-url and --code-url.
"""

import io
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

from servable_tensors import tfrecord, wire

HERE = Path(__file__).parent
MODELS = HERE / "models"
WARM_UP = "assets.extra/tf_serving_warmup_requests"
VARIABLES = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "numbers"}
IN_LIB = {"code/lib/placed_in_lib.py": b"WORD = 'found'\n"}
CODE = {"code/inference.py": (HERE / "inference.py").read_bytes()} | IN_LIB


def warm_up(*columns: str) -> bytes:
    """A file of records for `numbers`, each with one row for that input."""
    records = []
    for column in columns:
        log = wire.PredictionLog()
        log.predict_log.request.model_spec.name = "numbers"
        tensor = log.predict_log.request.inputs[column]
        tensor.dtype = wire.DataType["DT_FLOAT"]
        for size in (1, 2):
            tensor.tensor_shape.dim.add(size=size)
        tensor.float_val.extend([1.0, 2.0])
        records.append(log.SerializeToString())
    return tfrecord.frame_records(records)


def pack(archive: Path, files: Mapping[str, bytes] = {}, folders: Mapping[str, Path] = {}) -> Path:
    """With these files and folders, by their names in the archive."""
    with tarfile.open(archive, "w:gz") as tar:
        for name, folder in folders.items():
            tar.add(folder, name)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return archive


def all_models() -> dict[str, Path]:
    return {folder.name: folder for folder in sorted(MODELS.iterdir())}


def plain(archive: Path) -> Path:
    return pack(archive, {}, all_models())


def coded(archive: Path) -> Path:
    return pack(archive, CODE, all_models())


if __name__ == "__main__":
    plain(Path(sys.argv[1]))
    coded(Path(sys.argv[2]))
    print("serve both with", VARIABLES)
