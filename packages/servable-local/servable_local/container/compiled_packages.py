"""Packages of code/lib that are compiled for the image's Python, where another one runs here.

A wheel with compiled modules is for one Python and one platform. The same version of such a package is
fetched once for this Python, by pip and so from the index of pip's settings, and goes before code/lib on
the path; everything else is imported from code/lib itself.
Source: https://packaging.python.org/en/latest/specifications/platform-compatibility-tags/ (2026-11-22)
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

from servable_local.protection import private_folder
from servable_tensors.archive import CompiledPackages

_COMPILED = re.compile(r"\.(?:cpython-|cp|pypy)(\d)(\d+)[^.]*\.(?:so|pyd)$")
_TAG = re.compile(r"^Tag: *([^\s-]+-[^\s-]+-[^\s-]+)\s*$", re.MULTILINE)
_HERE = f"this computer runs Python {platform.python_version()}"
_REMEDY = "or run servable with that Python: `servable doctor` names one that is here"


def compiled_packages(code: Path) -> CompiledPackages:
    """Replacements, fetched if need be, of packages of `code`/lib for another Python."""
    paths: list[Path] = []
    problems: list[str] = []
    packaged: set[Path] = set()
    for package, fetched in fetched_packages(code / "lib"):
        files = {Path(str(file.locate())) for file in package.files or []}
        packaged |= files
        if isinstance(fetched, Path):
            paths.append(fetched)
            continue
        name = str(package.metadata["Name"])
        file = min(filter(_python_of, files), default=code / "lib" / name)
        python = _python_of(file)
        problems.append(
            f"{_shown(code, file)}: {name} {package.version} is compiled for "
            f"{f'Python {python}' if python else _tags(package)[0]}; {_HERE}, for "
            f"which the same version is not in {_cache()} and could not be fetched ({fetched}); start "
            "again where the package index answers, name a version in requirements.txt that has wheels "
            f"for both Pythons, {_REMEDY}"
        )
    for file in sorted(code.rglob("*.*")):
        if (python := _python_of(file)) and file not in packaged:
            problems.append(
                f"{_shown(code, file)}: is compiled for Python {python} and belongs to no package "
                f"with a .dist-info; {_HERE}; vendor its package, {_REMEDY}"
            )
    return CompiledPackages(tuple(paths), tuple(problems))


def fetched_packages(
    lib: Path, *, index: Sequence[str] = ()
) -> Iterator[tuple[PathDistribution, Path | str]]:
    """Each package of `lib` for another Python, and the folder of the same version for this one.

    A str says why there is none. `index`: lines of a requirements file that say where packages are.
    """
    ours = frozenset(sys_tags())
    context = DistributionFinder.Context(path=[str(lib)])
    for package in MetadataPathFinder.find_distributions(context):
        tags = {tag for text in _tags(package) for tag in parse_tag(text)}
        if tags and not tags & ours:
            yield package, _fetched(package, index)


def _tags(package: PathDistribution) -> list[str]:
    """As cp312-cp312-manylinux_2_28_x86_64."""
    return _TAG.findall(package.read_text("WHEEL") or "")


def _fetched(package: PathDistribution, index: Sequence[str]) -> Path | str:
    """The folder with this version of the package for this Python, or why there is none."""
    try:
        # They come from the archive, and become a folder's name.
        name = canonicalize_name(str(package.metadata["Name"]), validate=True)
        version = str(Version(str(package.version)))
        folder = _cache() / f"{name}-{version}"
        if not folder.is_dir():
            private_folder(folder.parent)
            with tempfile.TemporaryDirectory(dir=folder.parent) as beside:
                if problem := _install(f"{name}=={version}", Path(beside, "new"), index):
                    return problem
                if not folder.is_dir():  # another process was not quicker
                    Path(beside, "new").rename(folder)
    except (ValueError, OSError) as error:
        return str(error)
    return folder


def _install(requirement: str, target: Path, index: Sequence[str]) -> str | None:
    """Why pip does not install it, in its words; None where it does."""
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
    others = re.search(r"\(from versions: .*?([\w.+!]+)\)", ran.stderr)
    if others and others[1] != "none":
        return f"pip finds versions up to {others[1]} for it"
    lines = [line for line in ran.stderr.splitlines() if not line.startswith("WARNING")]
    return f"pip: {lines[-1] if lines else f'status {ran.returncode}'}"


def _cache() -> Path:
    """The cache folder for this Python and platform."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "servable", "packages", str(next(sys_tags())))


def _python_of(file: Path) -> str | None:
    """As 3.12, for a compiled module that this Python does not import."""
    match = _COMPILED.search(file.name)
    if match is None or f".{file.name.partition('.')[2]}" in importlib.machinery.EXTENSION_SUFFIXES:
        return None
    return f"{match[1]}.{match[2]}"


def _shown(code: Path, file: Path) -> str:
    return f"code/{file.relative_to(code).as_posix()}"
