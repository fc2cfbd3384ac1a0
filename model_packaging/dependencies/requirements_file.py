"""Parses requirements.txt and the files that it includes, as far as Servable needs.

Source: https://pip.pypa.io/en/stable/reference/requirements-file-format/
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import NormalizedName, canonicalize_name

WANTED = "requirements.txt"
Severity = Literal["error", "warning"]

_INCLUDE = re.compile(r"(?:-r|--requirement|-c|--constraint)[\s=]*(\S+)")
_SOURCE = re.compile(
    r"(-i|--index-url|--extra-index-url|-f|--find-links|--trusted-host)[\s=]*(\S+)"
)
_ELSEWHERE = re.compile(r"://|\$\{|^(git|hg|svn|bzr)\+")
_PATH = re.compile(r"[./~]|[^\s@]*[/\\]|[^\s@]*\.(whl|zip|tar\.gz)")
_OPTION = re.compile(r"-(?!e\b|-editable)")
# A user with a password, or a token instead; git@ is the user of SSH, and ${NAME} a variable.
_CREDENTIALS = re.compile(r"(\bhttps?://)(?!\$\{|git@)[^\s/@:]*(?::(?!\$\{)[^\s/@]+)?@")
# SageMaker unpacks the archive there.
_ARCHIVE = "/opt/ml/model/"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_OWN_IMAGE = "use your own image that has it (models.NAME.image)"
# Packages that need a library or a program of the system, which no image installs:
# https://github.com/aws/deep-learning-containers, docker/tensorflow/inference/2.20/Dockerfile.cpu, and
# https://github.com/aws/sagemaker-tensorflow-serving-container/issues/159 for older ones (2026-11-24)
_NEEDS = {
    "opencv-contrib-python": ("libGL.so.1", "write opencv-contrib-python-headless"),
    "opencv-python": ("libGL.so.1", "write opencv-python-headless"),
    "ffmpeg-python": ("the program ffmpeg", _OWN_IMAGE),
    "pdf2image": ("the program pdftoppm", _OWN_IMAGE),
    "pydub": ("the program ffmpeg", _OWN_IMAGE),
    "pytesseract": ("the program tesseract", _OWN_IMAGE),
    "pyzbar": ("libzbar.so.0", _OWN_IMAGE),
    "wand": ("libMagickWand", _OWN_IMAGE),
    "weasyprint": ("libpango", _OWN_IMAGE),
}
_HASH = re.compile(r"--hash[\s=]sha256:([0-9a-f]{64})")


def list_files(code: Path) -> list[Path]:
    """Return code/requirements.txt first, then what it includes, each once. Raises OSError."""
    paths = [code / WANTED]
    for file in paths:  # grows while it is walked
        for _, line in _read_lines(file):
            if match := _INCLUDE.match(line):
                included = (file.parent / match[1]).resolve()
                if included.is_file() and included not in paths:
                    paths.append(included)
    return paths


def _list_lines(code: Path) -> list[tuple[Path, int, str]]:
    """Return (file, number, text) of each line of `list_files`. Raises OSError."""
    return [(file, *line) for file in list_files(code) for line in _read_lines(file)]


def find_faults(code: Path) -> Iterator[tuple[Path, int, str, str, Severity]]:
    """Yield (file, line, problem, remedy, severity) of lines that pip or the image can't use.

    Raises OSError.
    """
    for file, number, line in _list_lines(code):
        if fault := _check_line(file, line):
            yield file, number, *fault
    yield from find_contradictions(code)


def find_start_faults(code: Path) -> Iterator[tuple[Path, int, str, str]]:
    """Yield (file, line, problem, remedy) of lines that fail in a container or contain credentials.

    pip looks for a path from its working folder, which isn't code/ there. Raises OSError.
    """
    for file, number, line in _list_lines(code):
        wanted = _remove_options(line)
        where = wanted.partition("@ ")[2].strip() or wanted
        if _CREDENTIALS.search(line):
            shown = _CREDENTIALS.sub(r"\1***@", line)
            problem = (
                f"{shown!r} contains credentials, which anyone with access to the archive can read"
            )
            remedy = 'set install = "vendored", and set the URL in the configuration of pip'
            yield file, number, problem, remedy
        elif not line.startswith("-c") and not _OPTION.match(line) and _is_local(where):
            problem = f"names the local path {where}, which pip doesn't find in a container"
            remedy = 'set install = "vendored", or use a package from an index'
            yield file, number, problem, remedy


def _remove_options(line: str) -> str:
    """Return the requirement in a line, without -e and the options after it."""
    return line.removeprefix("--editable").removeprefix("-e").strip(" =").split(" --")[0]


def _is_local(place: str) -> bool:
    """Return whether a requirement is a file or folder outside the container."""
    path = place.removeprefix("file://").removeprefix("file:")
    if path.startswith(_ARCHIVE):
        return False
    return path != place or (not _ELSEWHERE.search(place) and _PATH.match(place) is not None)


def find_contradictions(code: Path) -> Iterator[tuple[Path, int, str, str, Severity]]:
    """Yield a fault for each package that is pinned to a version that a different line excludes.

    Lines with a marker are left out. Raises OSError.
    """
    given: dict[NormalizedName, list[tuple[Path, int, Requirement]]] = {}
    for file, number, line in _list_lines(code):
        try:
            wanted = Requirement(line.split(" --")[0])
        except InvalidRequirement:
            continue  # an option, or a fault of its own
        if wanted.marker is None:
            given.setdefault(canonicalize_name(wanted.name), []).append((file, number, wanted))
    for name, lines in given.items():
        pins = [(each, _find_pin(each[2])) for each in lines]
        excluded = [
            (file, number, pin, other)
            for (file, number, _), pin in pins
            for _, _, other in lines
            if pin is not None and not other.specifier.contains(pin, prereleases=True)
        ]
        if excluded:
            file, number, pin, other = excluded[-1]
            problem = f"pins {name}=={pin}, but a different line requires {name}{other.specifier}"
            remedy = "keep one of them, because no version satisfies both"
            yield file, number, problem, remedy, "error"


def _find_pin(wanted: Requirement) -> str | None:
    exact = [each.version for each in wanted.specifier if each.operator == "=="]
    return exact[0] if exact and not exact[0].endswith("*") else None


def _check_line(file: Path, line: str) -> tuple[str, str, Severity] | None:
    """Return (problem, remedy, severity) of a line, or None."""
    if match := _INCLUDE.match(line):
        there = "://" in line or (file.parent / match[1]).is_file()
        return None if there else (f"includes {match[1]}, which is not there", "add it", "error")
    if _OPTION.match(line) or _ELSEWHERE.search(line):
        return None
    wanted = _remove_options(line)
    if line.startswith("-e") or _PATH.match(wanted):
        path = file.parent / wanted.partition("[")[0].partition(";")[0].strip()
        if any(each.is_file() for each in (path, path / "pyproject.toml", path / "setup.py")):
            return None
        problem = f"asks for {wanted}, which has nothing to install"
        return problem, "name a package, or add it", "error"
    try:
        name = canonicalize_name(Requirement(wanted).name)
    except InvalidRequirement:
        problem = f"{line[:60]!r} isn't a valid requirement, so pip fails"
        return problem, "write NAME==VERSION", "error"
    if name not in _NEEDS:
        return None
    needed, remedy = _NEEDS[name]
    return f"requires {name}, which needs {needed}, but the image lacks it", remedy, "warning"


def has_requirements(code: Path) -> bool:
    """Return whether a requirements.txt exists with more than comments and options. Raises OSError."""
    exists = (code / WANTED).is_file()
    return exists and any(not _OPTION.match(line) for _, _, line in _list_lines(code))


def list_packages(code: Path) -> set[str]:
    """Return the required packages, normalized like "scikit-learn". Raises OSError."""
    return {name for name, _ in _read_requirements(code)}


def read_hashes(code: Path) -> dict[str, set[str]]:
    """Return the SHA-256 hashes that each package may have, if the file gives any. Raises OSError."""
    allowed: dict[str, set[str]] = {}
    for name, line in _read_requirements(code):
        if matches := _HASH.findall(line):
            allowed.setdefault(name, set()).update(matches)
    return allowed


def list_source_options(code: Path) -> list[str]:
    """Return the options that set where packages come from, for a new requirements file. Raises OSError."""
    options = []
    for file, _, line in _list_lines(code):
        if line == "--no-index":
            options.append(line)
        elif match := _SOURCE.match(line):
            option, place = match.groups()
            if option in ("-f", "--find-links") and "://" not in place:
                place = str((file.parent / place).resolve())
            options.append(f"{option} {place}")
    return options


def _read_requirements(code: Path) -> Iterator[tuple[str, str]]:
    for _, _, line in _list_lines(code):
        if match := _NAME.match(line):
            yield canonicalize_name(match[0]), line


def _read_lines(file: Path) -> Iterator[tuple[int, str]]:
    """Yield (number, text) of the lines without comments and empty lines.

    A line that ends in a backslash continues in the next.
    """
    content = file.read_bytes()
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = "\n".join(content.decode(encoding, errors="replace").splitlines())
    number = 1
    for whole in re.split(r"(?<!\\)\n", text):
        if line := re.sub(r"(^|\s)#.*", "", whole.replace("\\\n", " ")).strip():
            yield number, line
        number += 1 + whole.count("\n")
