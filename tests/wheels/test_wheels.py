"""What the wheels hold and require: every package once, every file, one version."""

import filecmp
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from email.parser import Parser
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from readme_renderer import markdown

from model_packaging.tree import compute_sha256
from scripts.build_wheels import FOLDERS, OF_A_PROJECT, PACKAGES, REQUIREMENTS, WHEELS
from servable import __version__
from servable.console.extras import COMMANDS, MODULES
from servable.doctor.machine import LEAST_PYTHON
from servable.main import COMMANDS as EVERY_COMMAND
from servable.new.project_files import DISTRIBUTION, STAMP
from tests.checkouts import PYTHONS, ROOT, succeed_in
from tests.wheels.conftest import REPOSITORY, file_of, metadata
from tests.wheels.environment import requirements_of

pytestmark = pytest.mark.long

PYPROJECT: dict[str, Any] = metadata(DISTRIBUTION)
EXTRAS: dict[str, list[str]] = PYPROJECT["optional-dependencies"]
# requirements/*.in -> the extras of servable, "" its own requirements, that it installs too.
INSTALLED_BY = {"base": ("", "vendor", "aws", "synth"), "local": ("local",), "tuning": ("tune",)}
# What wheels are built from besides folders.
FILES = ("pyproject.toml", "requirements.txt", "README.md", "LICENSE")


def named(one: Requirement) -> str:
    return str(canonicalize_name(one.name))


def required(lines: list[str]) -> list[Requirement]:
    """Those of other people; our own wheels' are followed."""
    found = []
    for one in map(Requirement, lines):
        if named(one) not in WHEELS:
            found.append(one)
        elif named(one) != DISTRIBUTION:  # else an extra of another extra
            told = metadata(named(one))
            found += required(told["dependencies"])
            for extra in one.extras:
                found += required(told["optional-dependencies"][extra])
    return found


def own(extra: str) -> list[Requirement]:
    return required(EXTRAS[extra] if extra else PYPROJECT["dependencies"])


def written(name: str) -> set[str]:
    """What requirements/NAME.in asks for."""
    lines = (ROOT / "requirements" / f"{name}.in").read_text(encoding="utf-8").splitlines()
    found = [Requirement(line.partition("#")[0]) for line in lines if not line.startswith("#")]
    return {named(one) for one in found}


def tracked(*folders: str) -> list[str]:
    """Files that git has or would add: what else lies in a folder belongs into no wheel."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    ran = succeed_in(ROOT, *command)
    return [name for name in ran.stdout.splitlines() if (ROOT / name).exists()]


def test_every_package_and_every_file_is_in_one_wheel(wheels: Path) -> None:
    held = []
    for name in WHEELS:
        files = zipfile.ZipFile(file_of(name, wheels)).namelist()
        held.append({file for file in files if ".dist-info/" not in file})
    sources = {
        (ROOT / name).relative_to(folder.parent).as_posix()
        for folder in FOLDERS.values()
        for name in tracked(str(folder))
    }
    assert set().union(*held) == sources
    counted = Counter(file for files in held for file in files)
    assert [file for file, count in counted.items() if count > 1] == []
    tops = [top for files in held for top in {file.split("/")[0] for file in files}]
    assert sorted(tops) == sorted(PACKAGES)


def test_the_wheels_have_one_version_that_they_pin_and_the_changelog_explains(wheels: Path) -> None:
    """What is generated, as cdk.json, is held to it by `make check`; the action of the local AWS, by its
    own test, since nothing reads it before it is run."""
    kinds = (".toml", ".py", ".cfg", ".in", ".yml")
    literal = re.compile(rf"""["'=v]{re.escape(__version__)}["']""")
    places = [name for name in tracked(".") if name.endswith(kinds) and "tests/" not in name]
    assert [name for name in places if literal.search((ROOT / name).read_text("utf-8"))] == [
        "packages/servable-client/pyproject.toml",
        "packages/servable-local/action.yml",
        "packages/servable-local/pyproject.toml",
        "packages/servable-runtime/pyproject.toml",
        "packages/servable-scaling/pyproject.toml",
        "servable/__init__.py",
    ]
    assert {file.name.split("-")[1] for file in wheels.iterdir()} == {__version__}
    # `servable doctor` compares; the template's cdk.json is this one's.
    context = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    assert context[STAMP] == __version__

    first = re.search(r"^### To (\S+?)[,\n]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == __version__

    every = [Requirement(line) for lines in requirements_of(wheels).values() for line in lines]
    pins = {one.name: str(one.specifier) for one in every if one.name in WHEELS}
    assert pins == dict.fromkeys(WHEELS, f"=={__version__}")


def test_a_project_pins_all_that_it_installs_by_the_hashes_of_here(wheels: Path) -> None:
    with zipfile.ZipFile(file_of(DISTRIBUTION, wheels)) as archive:
        text = archive.read(REQUIREMENTS).decode().replace("@version@", __version__)
    pinned: dict[str, list[str]] = {}  # by name, the hashes of a new project's requirements.txt
    for line in text.replace("\\\n", " ").splitlines():
        if line[:1].isalnum():
            name = named(Requirement(line.partition(" --hash")[0]))
            pinned.setdefault(name, []).extend(re.findall(r"--hash=sha256:(\S+)", line))
    wants = {named(one) for extra in ("", "aws", "synth") for one in own(extra)}
    assert wants - set(pinned) == set()
    ours = {name: hashes for name, hashes in pinned.items() if name in WHEELS}
    assert ours == {DISTRIBUTION: ["@sha256@"]} | {
        name: [compute_sha256(file_of(name, wheels))] for name in OF_A_PROJECT
    }

    lock = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    theirs = [one for name, hashes in pinned.items() if name not in WHEELS for one in hashes]
    assert theirs == re.findall(r"--hash=sha256:(\S+)", lock)


def test_another_checkout_builds_the_same_bytes(wheels: Path, tmp_path: Path) -> None:
    """The other has another place, time, time zone and umask, as on another computer."""
    for name in tracked(*map(str, FOLDERS.values()), "packages", "scripts", *FILES):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
        (tmp_path / name).chmod(0o600)
    command = [sys.executable, "-m", "scripts.build_wheels", "out", "--repository", REPOSITORY]
    there = {**os.environ, "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"}
    subprocess.run(command, cwd=tmp_path, env=there, umask=0o077, check=True)
    names = [file.name for file in wheels.iterdir()]
    same, _, _ = filecmp.cmpfiles(wheels, tmp_path / "out", names, shallow=False)
    assert same == names


@pytest.mark.parametrize("name", INSTALLED_BY)
def test_requirements_ask_for_what_the_extras_bring_and_allow(name: str) -> None:
    allowed = [one for extra in INSTALLED_BY[name] for one in own(extra)]
    brought = {named(one) for one in allowed}
    # Setuptools installs the checkout itself, and pip is in every environment that has one.
    assert written(name) - {"setuptools"} - brought == set()
    assert brought - {"pip"} - (written(name) | written("base")) == set()

    file = "requirements.txt" if name == "base" else f"requirements/{name}.txt"
    lock = (ROOT / file).read_text(encoding="utf-8")
    pins = map(Requirement, re.findall(r"^([A-Za-z0-9_.-]+==[^ ]+)", lock, re.MULTILINE))
    refused = [
        str(pin)
        for pin in pins
        if (said := [one.specifier for one in allowed if named(one) == named(pin)])
        and not any(one.contains(str(pin.specifier).removeprefix("==")) for one in said)
    ]
    assert refused == []


def test_every_extra_that_a_command_names_is_there() -> None:
    assert {extra for extra, _ in COMMANDS.values()} | {*MODULES.values()} == set(EXTRAS)
    assert set(COMMANDS) <= set(EVERY_COMMAND)


def test_doctor_linter_and_tests_mean_the_python_of_the_wheels() -> None:
    asked = {metadata(name)["requires-python"] for name in WHEELS}
    assert asked == {">=" + ".".join(map(str, LEAST_PYTHON))}
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    assert f">={tools['mypy']['python_version']}" == PYPROJECT["requires-python"]
    named = [one.rpartition(" ")[2] for one in PYPROJECT["classifiers"] if "Python ::" in one]
    assert tuple(named) == PYTHONS


@pytest.mark.parametrize("wheel", WHEELS)
def test_a_descriptions_links_name_files_of_the_release(wheel: str, wheels: Path) -> None:
    """The description as PyPI's own library renders it."""
    with zipfile.ZipFile(file_of(wheel, wheels)) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        described = Parser().parsestr(archive.read(name).decode())
    targets = re.findall(
        r'(?:href|src)="([^"]+)"', markdown.render(str(described.get_payload())) or ""
    )
    tree = re.compile(rf"{REPOSITORY}/(?:blob|raw)/v{__version__}/([^#]+)")
    other = re.compile(r"https://(docs\.astral\.sh|github\.com/getmoto)/")
    ours = [target for target in targets if not other.match(target)]
    paths = [match and match[1] for match in map(tree.match, ours)]
    assert paths
    assert [path for path in paths if not path or not (ROOT / path).exists()] == []


def test_twine_finds_nothing_wrong_with_the_wheels(wheels: Path) -> None:
    succeed_in(ROOT, sys.executable, "-m", "twine", "check", "--strict", *wheels.iterdir())
