"""What is installed is what was locked: every file has a hash, and one with another is refused."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from model_packaging.tree import compute_sha256
from tests.checkouts import ROOT
from tests.packaging.wheelhouse import wheel

LOCKS = sorted([ROOT / "requirements.txt", *ROOT.glob("requirements/*.txt")])
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def requirements(lock: Path) -> list[str]:
    """Each with its hashes, as one line."""
    whole = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in whole.splitlines() if line[:1].isalnum()]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_every_requirement_has_hashes_and_no_registry(lock: Path) -> None:
    whole = re.compile(r"[A-Za-z0-9._-]+==\S+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+ *")
    assert [line for line in requirements(lock) if not whole.fullmatch(line)] == []
    assert [line for line in requirements(lock) if "://" in line or " @ " in line] == []


def test_the_hashes_are_of_the_files_for_every_platform() -> None:
    """grpcio 1.85 has wheels for 6 Pythons on 8 platforms: one computer's would be a single hash."""
    (line,) = [line for line in requirements(ROOT / "requirements/local.txt") if "grpcio==" in line]
    assert line.count("--hash=") > 30


def test_the_locks_agree_on_every_version() -> None:
    pins = {line.partition(" --hash")[0].strip() for lock in LOCKS for line in requirements(lock)}
    twice = sorted(pin.partition("==")[0] for pin in pins if " ; " not in pin)
    assert [name for name in set(twice) if twice.count(name) > 1] == []


def test_every_package_of_npm_has_a_hash_and_no_address() -> None:
    lock = json.loads((ROOT / "package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    held = [(package["integrity"][:7], "resolved" in package) for package in packages.values()]
    assert held == [("sha512-", False)] * len(packages)


def test_make_installs_nothing_without_hashes_but_the_project_itself() -> None:
    installs = [line for line in MAKEFILE.splitlines() if "pip install" in line or "-r req" in line]
    wrong = [
        line
        for line in installs
        if "$(INSTALL) -r" not in line and "--editable" not in line and "INSTALL :=" not in line
    ]
    assert (wrong, "npm install" in MAKEFILE) == ([], False)


def install(house: Path, lock: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """As make does, from a folder instead of the registry."""
    (said,) = re.findall(r"^INSTALL := \$\(BIN\)/python (.*)$", MAKEFILE, re.MULTILINE)
    command = [sys.executable, *said.split(), "--no-index", "--find-links", str(house)]
    return subprocess.run(
        [*command, "--target", str(target), "-r", str(lock)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """The lock of one tiny wheel in the folder `house` beside it."""
    (tmp_path / "house").mkdir()
    file = wheel(tmp_path / "house", "plain")
    lock = tmp_path / "lock.txt"
    version = file.name.split("-")[1]
    lock.write_text(f"plain=={version} --hash=sha256:{compute_sha256(file)}\n")
    return lock


@pytest.mark.long
def test_a_file_with_the_locked_hash_is_installed_and_any_other_is_refused(
    lock: Path, tmp_path: Path
) -> None:
    house, text = tmp_path / "house", lock.read_text()
    ran = install(house, lock, tmp_path / "installed")
    assert (ran.returncode, (tmp_path / "installed" / "plain.py").exists()) == (0, True), ran.stderr
    lock.write_text(text.partition(" --hash")[0])
    ran = install(house, lock, tmp_path / "without")
    assert (ran.returncode, "Hashes are required" in ran.stderr) == (1, True)
    (file,) = house.glob("*.whl")
    needy = wheel(house, "needy", requires=("plain",))
    lock.write_text(f"needy=={needy.name.split('-')[1]} --hash=sha256:{compute_sha256(needy)}\n")
    ran = install(house, lock, tmp_path / "needy")
    assert (ran.returncode, "plain" in ran.stderr) == (1, True)
    # Bytes before a zip's own are allowed: still a wheel, and another file.
    file.write_bytes(b"#!/bin/sh\n" + file.read_bytes())
    lock.write_text(text)
    ran = install(house, lock, tmp_path / "changed")
    assert (ran.returncode, "DO NOT MATCH THE HASHES" in ran.stderr) == (1, True)
