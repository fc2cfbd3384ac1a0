"""What an application installs: the client, and nothing of the house but tensors and messages."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.wheels.built import file_of, metadata

pytestmark = pytest.mark.long

NOT_IMPORTED = {
    "grpc",
    "gevent",
    "aws_cdk",
    "jsii",
    "tensorflow",
    "falcon",
    "infra",
    "servable_local",
    "servable_scaling",
}
# What is imported on first use, so that `import servable_client` does not wait for it.
ON_FIRST_USE = {"boto3", "botocore", "google.protobuf", "asyncio", "urllib3"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """The folder that the files of the wheel, and of the one that it requires, are in."""
    folder = tmp_path_factory.mktemp("installed")
    for name in ("servable-runtime", "servable-client"):
        with zipfile.ZipFile(file_of(name, wheels)) as archive:
            archive.extractall(folder)
    return folder


def run(installed: Path, code: str) -> str:
    """What the code prints, where `installed` comes before everything else."""
    command = [
        sys.executable,
        "-I",
        "-c",
        f"import sys; sys.path.insert(0, {str(installed)!r}); {code}",
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=installed).stdout


def test_neither_an_import_nor_a_prediction_imports_anything_heavy(installed: Path) -> None:
    code = "import servable_client, json; print(json.dumps(sorted(sys.modules)))"
    imported = set(json.loads(run(installed, code)))
    assert imported & (NOT_IMPORTED | ON_FIRST_USE) == set()
    code = (
        "from servable_client import FakeEndpoint, Endpoint; import servable_client.sagemaker_runtime; "
        "f = FakeEndpoint(lambda x: {'y': x}); [f.predict(x=[1.0], format=one) for one in "
        "('protobuf', 'npz', 'json')]; f.predict([1.0]); print(*sorted(sys.modules))"
    )
    assert set(run(installed, code).split()) & NOT_IMPORTED == set()


def test_it_requires_two_packages_and_the_tensors() -> None:
    needs = [
        dependency.partition(">")[0].partition("=")[0]
        for dependency in metadata("servable-client")["dependencies"]
    ]
    assert needs == ["servable-runtime", "boto3", "numpy"]
