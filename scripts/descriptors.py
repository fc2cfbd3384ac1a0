"""Compiles servable_tensors/*.proto: the descriptors of which servable_tensors/wire.py makes its messages."""

import base64
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory

from grpc_tools import protoc

FOLDER = Path(__file__).resolve().parents[1] / "servable_tensors"


def descriptor_set() -> str:
    """A FileDescriptorSet of all that the files need, in base64. Raises `RuntimeError`."""
    with TemporaryDirectory() as folder:
        result = Path(folder, "set")
        command = [
            "protoc",
            f"--proto_path={FOLDER}",
            f"--proto_path={files('grpc_tools') / '_proto'}",
            "--include_imports",
            f"--descriptor_set_out={result}",
            *(file.name for file in sorted(FOLDER.glob("*.proto"))),
        ]
        if protoc.main(command):
            raise RuntimeError(f"protoc does not compile the files in {FOLDER}; it says why above")
        return base64.encodebytes(result.read_bytes()).decode()
