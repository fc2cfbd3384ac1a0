"""The first commands of docs/installing.md in an empty home with nothing but uv and Python."""

import re
import resource
import shutil
import sys
from pathlib import Path

import pytest

from model_packaging.tree import compute_sha256
from scripts.build_wheels import OF_A_PROJECT
from servable.new.project_files import DISTRIBUTION
from tests.checkouts import ROOT, run_in, succeed_in
from tests.conftest import RANKER
from tests.wheels.conftest import file_of
from tests.wheels.environment import MOST_MEGABYTES, megabytes, repacked, required, requirements_of

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
_PAGE = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")
COMMANDS = _PAGE.partition("```sh\n")[2].partition("```")[0]
# Of the processor: a computer with nothing else to do takes no longer, for nothing waits.
MOST_SECONDS = 60
# Everything in the home, the compiled modules of every package included.
MOST_WITH_BYTECODE = 70


@pytest.fixture(scope="module")
def home(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home after the page's commands, with no variable but these."""
    # A folder instead of the index: our wheels, and all that the base requires.
    house, own = tmp_path_factory.mktemp("house"), requirements_of(wheels)
    for name in {*required([DISTRIBUTION], own)} - {*own}:
        repacked(name, house)
    shutil.copytree(wheels, house, dirs_exist_ok=True)
    home = tmp_path_factory.mktemp("home")
    programs = tmp_path_factory.mktemp("programs")
    for name in ("uv", "uvx"):
        (programs / name).symlink_to(Path(sys.executable).with_name(name))
    version = "python{}.{}".format(*sys.version_info)
    (programs / "python3").symlink_to(Path(sys.base_prefix, "bin", version))
    shutil.copytree(RANKER, home / "my_model")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    variables = dict.fromkeys(("UV_NO_INDEX", "UV_OFFLINE", "UV_COMPILE_BYTECODE"), "1")
    variables |= {"HOME": str(home), "PATH": f"{programs}:{home}/.local/bin"}
    variables["UV_FIND_LINKS"] = str(house)
    command = ("/bin/sh", "-ec", COMMANDS)
    ran = succeed_in(home, *command, environment=variables, timeout_seconds=500)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    (home / "printed").write_text(ran.stdout)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    (home / "seconds").write_text(f"{seconds:.1f}")
    return home


def test_the_first_minute_goes_from_a_project_to_a_rehearsed_day_and_is_one(home: Path) -> None:
    words = [line.split()[1] for line in COMMANDS.splitlines() if line.startswith("servable")]
    assert words == ["new", "init", "check", "package", "cost", "rehearse"]
    assert "requests/s" in (home / "printed").read_text()
    assert float((home / "seconds").read_text()) <= MOST_SECONDS


def test_the_base_is_small_and_brings_no_tensorflow_numpy_or_boto3(home: Path) -> None:
    files = {file.lstat().st_ino: file for file in (home / ".cache").rglob("*")}
    files |= {file.lstat().st_ino: file for file in (home / ".local").rglob("*")}
    assert any(file.suffix == ".pyc" for file in files.values())
    size = sum(file.lstat().st_blocks * 512 for file in files.values()) / 1e6
    assert size <= MOST_WITH_BYTECODE
    assert megabytes(home / ".local" / "share" / "uv" / "tools") <= MOST_MEGABYTES
    (site,) = home.glob(".local/share/uv/tools/*/lib/python3*/site-packages")
    assert {"numpy", "tensorflow", "boto3"} & {path.name for path in site.iterdir()} == set()


def test_uvs_command_names_extras_and_pins_its_wheel(home: Path, wheels: Path) -> None:
    ran = run_in(home, home / ".local" / "bin" / "servable", "invoke", environment={})
    assert ran.stderr.strip().endswith(f": uv tool install '{DISTRIBUTION}[aws]'")

    text = (home / "my-service" / "requirements.txt").read_text()
    digest = re.search(rf"^{DISTRIBUTION}\S+ \\\n +--hash=sha256:(\w+)$", text, re.MULTILINE)
    assert digest is not None
    assert digest[1] == compute_sha256(file_of(DISTRIBUTION, wheels))


def test_pip_takes_wheels_by_a_projects_hashes(home: Path, wheels: Path, tmp_path: Path) -> None:
    """uv's command wrote the new project."""
    whole = (home / "my-service" / "requirements.txt").read_text()
    ours = re.findall(r"^servable-\S+ \\\n.*\n", whole, re.MULTILINE)
    assert len(ours) == 4
    (tmp_path / "ours.txt").write_text("".join(ours).replace("[aws,synth]", ""))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-compile", "--find-links", str(wheels), "--target", "site", "-r", "ours.txt"]
    succeed_in(tmp_path, *command)
    by_pip = tmp_path / "site"
    names = {path.name.split("-")[0] for path in by_pip.glob("*.dist-info")}
    assert names == {name.replace("-", "_") for name in (DISTRIBUTION, *OF_A_PROJECT)}

    # Each installer adds files of its own to what it installs.
    code = "from servable.new import project_files as p; print(p.compute_installed_sha256())"
    path = {"PYTHONPATH": str(by_pip)}
    ran = succeed_in(by_pip, sys.executable, "-c", code, environment=path)
    assert ran.stdout.strip() == compute_sha256(file_of(DISTRIBUTION, wheels))
