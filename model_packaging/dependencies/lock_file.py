"""code/requirements.lock: the wheels that become code/lib/, by name and hash."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from model_packaging.beside import write_beside
from model_packaging.dependencies import requirements_file
from model_packaging.dependencies.requirements_file import WANTED
from model_packaging.refusal import PackagingError

LOCK = "requirements.lock"
REMEDY = "run `servable package ENV`"

# glibc 2.28 and older: the oldest image with Python 3.12 has a newer one.
# https://peps.python.org/pep-0600/
PLATFORM = "x86_64-manylinux_2_28"
_FOR = "# What becomes code/lib/: wheels for Python "


@dataclass(frozen=True)
class Wheel:
    """One line of the lock."""

    name: str
    sha256: str

    @property
    def requirement(self) -> str:
        """The line that makes pip take this file and no other."""
        package, version, _, _ = parse_wheel_filename(self.name)
        return f"{package}=={version} --hash=sha256:{self.sha256}"


def write(code: Path, chosen: Sequence[Wheel], *, python: str) -> None:
    """The lock of code/requirements.txt as it is now. Raises OSError."""
    lines = [
        f"{_FOR}{python} on {PLATFORM}.",
        "# Written by servable package; commit it.",
        _mark(code),
        *(f"{wheel.name} sha256:{wheel.sha256}" for wheel in chosen),
    ]
    write_beside(code / LOCK, ("\n".join(lines) + "\n").encode())


def locked(code: Path, *, python: str | None = None) -> list[Wheel]:
    """The lock, read. Raises `PackagingError` when it is missing, of another requirements.txt, or of
    another Python than the image's, where that is given."""
    with disk(code / LOCK):
        if not (code / LOCK).is_file():
            raise PackagingError(code / WANTED, f"has no {LOCK} beside it", REMEDY)
        lines = (code / LOCK).read_text(encoding="utf-8", errors="replace").splitlines()
        mark = _mark(code)
    if mark not in lines:
        raise PackagingError(code / LOCK, f"is of another {WANTED}: that has changed since", REMEDY)
    stated = next((line for line in lines if line.startswith(_FOR)), "").removeprefix(_FOR)
    if python is not None and stated.split(" ")[0] != python:
        problem = f"is for Python {stated.split(' ')[0]}; the image has {python}"
        raise PackagingError(code / LOCK, problem, REMEDY)
    return [
        _wheel(code / LOCK, number, line)
        for number, line in enumerate(lines, start=1)
        if line and not line.startswith("#")
    ]


def _wheel(file: Path, number: int, line: str) -> Wheel:
    name, _, digest = line.partition(" sha256:")
    try:
        parse_wheel_filename(name)
    except InvalidWheelFilename:
        digest = ""
    if not re.fullmatch("[0-9a-f]{64}", digest):
        raise PackagingError(file, f"line {number} is no wheel and its hash: {line!a:.60}", REMEDY)
    return Wheel(name, digest)


def _mark(code: Path) -> str:
    digest = hashlib.sha256()
    for file in requirements_file.files(code):
        digest.update(file.read_bytes())
    return f"# of {WANTED} sha256:{digest.hexdigest()}"


@contextmanager
def disk(path: Path) -> Iterator[None]:
    """Turns errors of the disk into a `PackagingError` of `path`, or of the file that is at fault."""
    try:
        yield
    except OSError as error:
        problem = f"cannot be read or written: {error.strerror}"
        remedy = "let this user read and write it, and see that there is room"
        raise PackagingError(
            Path(error.filename2 or error.filename or path), problem, remedy
        ) from None
