"""Packages of code/lib that are compiled for the image's Python, if this Python differs.

A wheel with compiled modules is for one Python and one platform. The same version of such a
package is fetched once for this Python, by pip and so from the index of pip's settings, and
precedes code/lib on the path; everything else is imported from code/lib itself. Source:
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


def find_compiled_packages(code: Path) -> CompiledPackages:
    """Return replacements, fetched if needed, for packages of `code`/lib for a different Python."""
    paths: list[Path] = []
    problems: list[str] = []
    for package, fetched in fetch_packages(code / "lib"):
        if isinstance(fetched, Path):
            paths.append(fetched)
            continue
        files = [Path(str(file.locate())) for file in package.files or []]
        name = str(package.metadata["Name"])
        file = min(filter(_find_python_version, files), default=code / "lib" / name)
        python = _find_python_version(file)
        problems.append(
            f"code/{file.relative_to(code).as_posix()}: {name} {package.version} is compiled for "
            f"{f'Python {python}' if python else _list_tags(package)[0]}; this computer runs Python "
            f"{platform.python_version()}, for which the same version is not in {_find_cache()} and could "
            f"not be fetched ({fetched}); start again where the package index responds, name a version in "
            "requirements.txt that has wheels for both Pythons, or run servable with that Python: "
            "`servable doctor` lists one that is installed"
        )
    return CompiledPackages(tuple(paths), tuple(problems))


def fetch_packages(
    lib: Path, *, index: Sequence[str] = ()
) -> Iterator[tuple[PathDistribution, Path | str]]:
    """Yield each package of `lib` for a different Python, and its folder for this Python, or why none.

    The folder has the same version. `index`: lines of a requirements file about the index.
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
    """Return the folder with this version of the package for this Python, or the problem."""
    try:
        # They come from the archive, and become a folder's name.
        name = canonicalize_name(str(package.metadata["Name"]), validate=True)
        version = str(Version(str(package.version)))
        folder = _find_cache() / f"{name}-{version}"
        if not folder.is_dir():
            create_private_folder(folder.parent)
            with tempfile.TemporaryDirectory(dir=folder.parent) as parent:
                if problem := _install(f"{name}=={version}", Path(parent, "new"), index):
                    return problem
                if not folder.is_dir():  # another process may have been faster
                    Path(parent, "new").rename(folder)
    except (ValueError, OSError) as error:
        return str(error)
    return folder


def _install(requirement: str, target: Path, index: Sequence[str]) -> str | None:
    """Install a requirement with pip. Return None, or pip's reason for a failure."""
    command = [sys.executable, "-P", "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--retries", "1", "--only-binary", ":all:"]
    command += ["--target", str(target)]
    command += [word for line in index for word in line.split(" ", 1)]
    # The user's code is on that path, and is not pip's.
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [*command, requirement], capture_output=True, text=True, check=False, env=environment
    )
    if ran.returncode == 0:
        return None
    lines = [line for line in ran.stderr.splitlines() if not line.startswith("WARNING")]
    return f"pip: {lines[-1] if lines else f'status {ran.returncode}'}"


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
