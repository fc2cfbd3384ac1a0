"""What is installed is what was locked: every file has a hash, and one with another is refused."""

import json
import re
import sys
from pathlib import Path

import pytest

from model_packaging.tree import compute_sha256
from tests.checkouts import ROOT, Ran, run_in
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


@pytest.mark.long
def test_a_file_with_the_locked_hash_is_installed_and_any_other_is_refused(tmp_path: Path) -> None:
    (said,) = re.findall(r"^INSTALL := \$\(BIN\)/python (.*)$", MAKEFILE, re.MULTILINE)

    def install(lock: str, target: str = "other") -> Ran:
        """As make does, from a folder instead of the registry."""
        (tmp_path / "lock.txt").write_text(lock)
        command = (*said.split(), "--no-index", "--find-links", "house", "-r", "lock.txt")
        return run_in(tmp_path, sys.executable, *command, "--target", target)

    def lock_wheel(file: Path) -> str:
        name, version, *_ = file.name.split("-")
        return f"{name}=={version} --hash=sha256:{compute_sha256(file)}\n"

    house = tmp_path / "house"
    house.mkdir()
    file = wheel(house, "plain")
    lock = lock_wheel(file)
    ran = install(lock, "installed")
    assert (ran.returncode, (tmp_path / "installed" / "plain.py").exists()) == (0, True), ran.stderr
    ran = install(lock.partition(" --hash")[0])
    assert (ran.returncode, "Hashes are required" in ran.stderr) == (1, True)
    ran = install(lock_wheel(wheel(house, "needy", requires=("plain",))))
    assert (ran.returncode, "plain" in ran.stderr) == (1, True)
    # Bytes before a zip's own are allowed: still a wheel, and another file.
    file.write_bytes(b"#!/bin/sh\n" + file.read_bytes())
    ran = install(lock)
    assert (ran.returncode, "DO NOT MATCH THE HASHES" in ran.stderr) == (1, True)
