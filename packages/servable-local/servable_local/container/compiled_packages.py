"""Packages of code/lib that are compiled for the image's Python, if this Python differs.

A wheel with compiled modules is for one Python and one platform. pip fetches the same version of
such a package once for this Python, or the nearest version with a wheel for it. It precedes
code/lib on the path; everything else is imported from code/lib itself. Source:
https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/ (2026-11-22)
"""

import importlib.machinery
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from importlib.metadata import DistributionFinder, MetadataPathFinder, PathDistribution
from pathlib import Path

from packaging.tags import parse_tag, sys_tags
from packaging.utils import canonicalize_name
from packaging.version import Version

from servable_local.protection import create_private_folder
from servable_tensors.archive import CompiledPackages

_COMPILED = re.compile(r"\.(?:cpython-|cp|pypy)(\d)(\d+)[^.]*\.(?:so|pyd)$")
_TAG = re.compile(r"^Tag: *([^\s-]+-[^\s-]+-[^\s-]+)\s*$", re.MULTILINE)
_HERE = f"this computer runs Python {platform.python_version()}"
_REMEDY = "or run servable with that Python"


def provide_compiled_packages(code: Path) -> CompiledPackages:
    """Return replacements, fetched if needed, for packages of `code`/lib for a different Python."""
    paths: list[Path] = []
    problems: list[str] = []
    packaged: set[Path] = set()
    for package, fetched in fetch_packages(code / "lib"):
        files = {Path(str(file.locate())) for file in package.files or []}
        packaged |= files
        name, version = str(package.metadata["Name"]), str(package.version)
        file = min(filter(_find_python_version, files), default=code / "lib" / name)
        python = _find_python_version(file)
        compiled = (
            f"{_format_path(code, file)}: {name} {version} is compiled for "
            f"{f'Python {python}' if python else _list_tags(package)[0]}; {_HERE}"
        )
        remedy = f"set a version in requirements.txt that has wheels for both Pythons, {_REMEDY}"
        if isinstance(fetched, str):
            problems.append(
                f"{compiled}, for which the same version is not in {_find_cache()} and could not be fetched "
                f"({fetched}); start again where the package index is reachable, {remedy}"
            )
            continue
        paths.append(fetched)
        if not fetched.name.endswith(f"-{Version(version)}"):
            instead = f"it has no wheel; {fetched.name} is imported instead; {remedy}"
            problems.append(f"{compiled}, for which {instead}")
    for file in sorted(code.rglob("*.*")):
        if (python := _find_python_version(file)) and file not in packaged:
            problems.append(
                f"{_format_path(code, file)}: is compiled for Python {python} and is not part of a package "
                f"with a .dist-info; {_HERE}; vendor its package, {_REMEDY}"
            )
    return CompiledPackages(tuple(paths), tuple(problems))


def fetch_packages(
    lib: Path, *, index: Sequence[str] = ()
) -> Iterator[tuple[PathDistribution, Path | str]]:
    """Yield each package of `lib` for a different Python, and its folder for this Python.

    The folder has the same version, or the nearest one with a wheel for this Python; its name says
    which. A str says why there is none.
    `index`: lines of a requirements file that say where packages are.
    """
    ours = frozenset(sys_tags())
    context = DistributionFinder.Context(path=[str(lib)])
    for package in MetadataPathFinder.find_distributions(context):
        tags = {tag for text in _list_tags(package) for tag in parse_tag(text)}
        if tags and not tags & ours:
            yield package, _fetch_package(package, index)


def _list_tags(package: PathDistribution) -> list[str]:
    """Return the package's tags, such as cp312-cp312-manylinux_2_28_x86_64."""
    return _TAG.findall(package.read_text("WHEEL") or "")


def _fetch_package(package: PathDistribution, index: Sequence[str]) -> Path | str:
    """Return the folder with the package for this Python, or the problem."""
    try:
        # They come from the archive, and become a folder's name.
        name = canonicalize_name(str(package.metadata["Name"]), validate=True)
        version = Version(str(package.version))
        folder = _find_cache() / f"{name}-{version}"
        problem, others = _install(f"{name}=={version}", folder, index)
        if others:
            nearest = max((one for one in others if one < version), default=min(others))
            folder = _find_cache() / f"{name}-{nearest}"
            problem, _ = _install(f"{name}=={nearest}", folder, index)
    except (ValueError, OSError) as error:
        return str(error)
    return problem or folder


def _install(requirement: str, folder: Path, index: Sequence[str]) -> tuple[str, list[Version]]:
    """Install a requirement into `folder` with pip, unless the folder exists.

    Return pip's reason for a failure, otherwise "", and the other versions that it finds.
    """
    if folder.is_dir():
        return "", []
    create_private_folder(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
        command = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--retries", "1", "--only-binary", ":all:"]
        command += ["--target", str(Path(beside, "new"))]
        command += [word for line in index for word in line.split(" ", 1)]
        # The user's code is on that path, and is not pip's.
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        ran = subprocess.run(
            [*command, requirement], capture_output=True, text=True, check=False, env=environment
        )
        if ran.returncode == 0:
            if not folder.is_dir():  # another process was not quicker
                Path(beside, "new").rename(folder)
            return "", []
    lines = [line for line in ran.stderr.splitlines() if not line.startswith("WARNING")]
    found = re.search(r"\(from versions: (.*)\)", ran.stderr)
    others = [Version(one) for one in re.findall(r"\d[\w.+!]*", found[1])] if found else []
    return f"pip: {lines[-1] if lines else f'status {ran.returncode}'}", others


def _find_cache() -> Path:
    """Return the cache folder for this Python and platform."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "servable", "packages", str(next(sys_tags())))


def _find_python_version(file: Path) -> str | None:
    """Return a version such as 3.12 for a compiled module that this Python doesn't import."""
    match = _COMPILED.search(file.name)
    if match is None or f".{file.name.partition('.')[2]}" in importlib.machinery.EXTENSION_SUFFIXES:
        return None
    return f"{match[1]}.{match[2]}"


def _format_path(code: Path, file: Path) -> str:
    return f"code/{file.relative_to(code).as_posix()}"
