"""What an application installs: the client, and nothing of the house but tensors and messages."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_IMPORTED = {
    "grpc",
    "gevent",
    "aws_cdk",
    "jsii",
    "tensorflow",
    "falcon",
    "infra",
    "servable_local",
}
# What is imported on first use, so that `import servable_client` does not wait for it.
ON_FIRST_USE = {"boto3", "botocore", "google.protobuf", "asyncio", "urllib3"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the wheel's files are in; built from a copy, since setuptools writes there."""
    folder = tmp_path_factory.mktemp("distribution")
    for name in ("servable_client", "servable_tensors"):
        ignored = shutil.ignore_patterns("__pycache__", "build", "*.egg-info")
        shutil.copytree(ROOT / name, folder / name, ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--wheel-dir", str(folder / "wheel"), str(folder / "servable_client")],
        check=True,
    )
    (wheel,) = (folder / "wheel").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def run(installed: Path, code: str) -> str:
    """What the code prints, where `installed` comes before everything else."""
    command = [
        sys.executable,
        "-I",
        "-c",
        f"import sys; sys.path.insert(0, {str(installed)!r}); {code}",
    ]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=installed).stdout


@pytest.fixture(scope="module")
def imported(installed: Path) -> set[str]:
    code = "import servable_client, json; print(json.dumps(sorted(sys.modules)))"
    return set(json.loads(run(installed, code)))


def test_it_holds_all_of_its_own_modules(installed: Path) -> None:
    def modules(folder: Path) -> set[str]:
        found = folder.rglob("*.py")
        return {one.relative_to(folder).as_posix() for one in found if "build" not in one.parts}

    for package in ("servable_client", "servable_tensors"):
        assert modules(installed / package) == modules(ROOT / package)


def test_it_is_typed(installed: Path) -> None:
    assert (installed / "servable_client" / "py.typed").is_file()


def test_importing_it_imports_nothing_heavy(imported: set[str]) -> None:
    assert imported & (NOT_IMPORTED | ON_FIRST_USE) == set()


def test_a_prediction_imports_nothing_heavy_either(installed: Path) -> None:
    code = (
        "from servable_client import FakeEndpoint, Endpoint; import servable_client.sagemaker_runtime; "
        "f = FakeEndpoint(lambda x: {'y': x}); [f.predict(x=[1.0], format=one) for one in "
        "('protobuf', 'npz', 'json')]; f.predict([1.0]); print(*sorted(sys.modules))"
    )
    assert set(run(installed, code).split()) & NOT_IMPORTED == set()


def test_it_works_from_where_it_is_installed(installed: Path) -> None:
    code = (
        "import servable_tensors.wire; from servable_client import FakeEndpoint as Fake; "
        "found = Fake(lambda x: {'y': x}).predict(x=[1.0], format='protobuf')['y']; "
        "print(found.tolist(), servable_tensors.wire.__file__)"
    )
    assert run(installed, code) == f"[1.0] {installed}/servable_tensors/wire.py\n"


def test_what_it_needs_is_named(installed: Path) -> None:
    metadata = next(installed.glob("*.dist-info")) / "METADATA"
    needs = [
        line.split()[1]
        for line in metadata.read_text().splitlines()
        if line.startswith("Requires-Dist")
    ]
    assert [one.partition(">")[0] for one in needs] == ["boto3", "numpy", "protobuf"]
