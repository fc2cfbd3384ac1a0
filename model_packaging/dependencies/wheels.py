"""Lock, fetch, and unpack the code's dependencies: wheels for the image's Python and platform.

code/requirements.lock lists the wheels that become code/lib/, by name and hash. Only `lock` and `fetch`
use an index: synth and publishing need the lock and the wheels that it names.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from model_packaging.beside import create_private_folder, write_atomically
from model_packaging.dependencies import requirements_file
from model_packaging.dependencies.requirements_file import WANTED
from model_packaging.refusal import PackagingError, build_install_command
from model_packaging.tree import compute_sha256

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
        """Return the requirement line that makes pip accept only this file."""
        package, version, _, _ = parse_wheel_filename(self.name)
        return f"{package}=={version} --hash=sha256:{self.sha256}"


def write_lock(code: Path, chosen: Sequence[Wheel], *, python: str) -> None:
    """Write the lock for the current code/requirements.txt. Raises OSError."""
    lines = [
        f"{_FOR}{python} on {PLATFORM}.",
        "# Written by servable package; commit it.",
        _compute_digest_comment(code),
        *(f"{wheel.name} sha256:{wheel.sha256}" for wheel in chosen),
    ]
    write_atomically(code / LOCK, ("\n".join(lines) + "\n").encode())


def read_lock(code: Path, *, python: str | None = None) -> list[Wheel]:
    """Read the lock.

    Raises `PackagingError` if it is missing, belongs to a different requirements.txt, or isn't for `python`.
    """
    with explain_disk_errors(code / LOCK):
        if not (code / LOCK).is_file():
            raise PackagingError(code / WANTED, f"has no {LOCK} next to it", REMEDY)
        lines = (code / LOCK).read_text(encoding="utf-8", errors="replace").splitlines()
        mark = _compute_digest_comment(code)
    if mark not in lines:
        raise PackagingError(code / LOCK, f"is out of date: {WANTED} has changed since", REMEDY)
    stated = next((line for line in lines if line.startswith(_FOR)), "").removeprefix(_FOR)
    if python is not None and stated.split(" ")[0] != python:
        problem = f"is for Python {stated.split(' ')[0]}; the image has {python}"
        raise PackagingError(code / LOCK, problem, REMEDY)
    return [
        _parse_wheel(code / LOCK, number, line)
        for number, line in enumerate(lines, start=1)
        if line and not line.startswith("#")
    ]


def _parse_wheel(file: Path, number: int, line: str) -> Wheel:
    name, _, digest = line.partition(" sha256:")
    try:
        parse_wheel_filename(name)
    except InvalidWheelFilename:
        digest = ""
    if not re.fullmatch("[0-9a-f]{64}", digest):
        problem = f"line {number} is not a wheel name with its hash: {line!a:.60}"
        raise PackagingError(file, problem, REMEDY)
    return Wheel(name, digest)


def _compute_digest_comment(code: Path) -> str:
    digest = hashlib.sha256()
    for file in requirements_file.list_files(code):
        digest.update(file.read_bytes())
    return f"# of {WANTED} sha256:{digest.hexdigest()}"


@contextmanager
def explain_disk_errors(path: Path) -> Iterator[None]:
    """Convert errors of the disk into a `PackagingError` for `path`, or for the file at fault."""
    try:
        yield
    except OSError as error:
        path = Path(error.filename2 or error.filename or path)
        problem = f"cannot be read or written: {error.strerror}"
        remedy = "give this user read and write access, and check the free disk space"
        raise PackagingError(path, problem, remedy) from None


# Parts of a wheel's .data folder that are imported. Scripts, headers and data have no place
# in the container's code/lib. https://packaging.python.org/en/latest/specifications/binary-distribution-format/
IMPORTED = ("purelib", "platlib")
_TAGS = [f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)]
_TAGS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]


def lock(code: Path, *, python: str, wheels: Path, find_links: Path | None = None) -> list[Wheel]:
    """Resolve code/requirements.txt for `python` on x86-64; write the lock, and fill `wheels`.

    `find_links` is a folder of wheels to use instead of an index. Raises `PackagingError`.
    """
    _require_programs()
    with explain_disk_errors(code), tempfile.TemporaryDirectory() as folder:
        resolved = Path(folder) / LOCK
        # Not pip: it evaluates `python_version` of the computer it runs on.
        _run_command(
            code,
            [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config"]
            # This interpreter only reads metadata; without it, uv downloads another one.
            + ["--python", sys.executable, "--no-python-downloads"]
            + ["--no-header", "--no-annotate", "--no-emit-index-url", "--no-emit-find-links"]
            + ["--generate-hashes", "--only-binary", ":all:", "--python-platform", PLATFORM]
            + ["--python-version", python, *_build_source_options(find_links)]
            + ["--output-file", str(resolved), str(code / WANTED)],
        )
        requirements = resolved.read_text(encoding="utf-8").splitlines()
        chosen = _download(code, requirements, wheels, python, find_links)
        # uv writes the hashes of what it finds, whatever the file asks for.
        allowed = requirements_file.read_hashes(code)
        for wheel in chosen:
            package = parse_wheel_filename(wheel.name)[0]
            if wheel.sha256 not in allowed.get(package, {wheel.sha256}):
                problem = (
                    f"requires a different hash of {package} than {wheel.name}: {wheel.sha256}"
                )
                remedy = "find out which is right, and correct it"
                raise PackagingError(code / WANTED, problem, remedy)
        write_lock(code, chosen, python=python)
    return chosen


def fetch(code: Path, *, python: str, wheels: Path, find_links: Path | None = None) -> list[Wheel]:
    """Return the wheels of a valid lock, and download those that are missing into `wheels`.

    Resolves nothing: it fetches exactly what was locked. Raises `PackagingError`.
    """
    locked_wheels = read_lock(code, python=python)
    missing = [wheel for wheel in locked_wheels if not _is_present(wheels, wheel)]
    if missing:
        _require_programs()
    with explain_disk_errors(wheels):
        _download(code, [wheel.requirement for wheel in missing], wheels, python, find_links)
    return locked_wheels


def require_wheels(code: Path, *, wheels: Path, python: str | None = None) -> list[Wheel] | None:
    """Return the wheels that the code needs; None if it has no requirements.

    Raises `PackagingError` if the lock isn't valid, or names a wheel that is missing.
    """
    with explain_disk_errors(code / WANTED):
        if not requirements_file.has_requirements(code):
            return None
    locked_wheels = read_lock(code, python=python)
    for wheel in locked_wheels:
        if not _is_present(wheels, wheel):
            raise PackagingError(code / LOCK, f"{wheel.name} is not on this computer", REMEDY)
    return locked_wheels


def build_lib_folder(code: Path, *, wheels: Path, unpacked: Path) -> Path | None:
    """Return the folder that becomes code/lib/, or None if none is needed.

    Raises `PackagingError` if the lock isn't valid, or names a wheel that is missing.
    """
    locked_wheels = require_wheels(code, wheels=wheels)
    if locked_wheels is None:
        return None
    text = "".join(wheel.sha256 for wheel in locked_wheels)
    target = unpacked / hashlib.sha256(text.encode()).hexdigest()
    with explain_disk_errors(unpacked):
        if not target.is_dir():
            unpack([wheels / wheel.name for wheel in locked_wheels], target)
    return target


def list_vendored_versions(code: Path) -> dict[str, str]:
    """Return the version of each package that becomes, or is in, code/lib/. Raises `PackagingError`."""
    is_locked = (code / WANTED).is_file() and not (code / "lib").is_dir()
    wheels = [parse_wheel_filename(wheel.name) for wheel in (read_lock(code) if is_locked else ())]
    versions = {str(name): str(version) for name, version, *_ in wheels}
    with explain_disk_errors(code):
        for installed in sorted(code.glob("lib/*.dist-info")):
            name, _, version = installed.name.removesuffix(".dist-info").rpartition("-")
            versions[canonicalize_name(name)] = version
    return versions


def _download(
    code: Path, requirements: Sequence[str], wheels: Path, python: str, find_links: Path | None
) -> list[Wheel]:
    if not any(line.strip() for line in requirements):
        return []
    digits = python.replace(".", "")
    abis = [part for abi in (f"cp{digits}", "abi3", "none") for part in ("--abi", abi)]
    tags = [part for tag in _TAGS for part in ("--platform", tag)]
    create_private_folder(wheels)
    with tempfile.TemporaryDirectory(dir=wheels) as folder:
        pins = Path(folder) / "pins.txt"
        text = [] if find_links else requirements_file.list_source_options(code)
        pins.write_text("\n".join([*text, *requirements]) + "\n", encoding="utf-8")
        _run_command(
            code,
            [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
            + ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
            + [*abis, *tags, *_build_source_options(find_links)]
            + ["--dest", folder, "--requirement", str(pins)],
        )
        paths = sorted(Path(folder).glob("*.whl"))
        chosen = [Wheel(file.name, compute_sha256(file)) for file in paths]
        for file in paths:
            file.replace(wheels / file.name)
    return chosen


def _require_programs() -> None:
    """Raise ModuleNotFoundError if uv, which resolves, or pip, which downloads, is missing."""
    for name in ("uv", "pip"):
        if find_spec(name) is None:
            problem = f"{WANTED} lists packages, but {name}, which fetches them, is not installed"
            raise ModuleNotFoundError(f"{problem}: {build_install_command('vendor')}", name=name)


def _build_source_options(find_links: Path | None) -> list[str]:
    return ["--no-index", "--find-links", str(find_links)] if find_links else []


def _run_command(code: Path, command: list[str]) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        text = " ".join((ran.stderr or ran.stdout).split())
        problem = f"is not available as wheels for the image: {text}"
        remedy = "change that requirement, or put the package into code/lib/"
        raise PackagingError(code / WANTED, problem, remedy)


def _is_present(wheels: Path, wheel: Wheel) -> bool:
    try:
        return compute_sha256(wheels / wheel.name) == wheel.sha256
    except OSError:
        return False


def unpack(wheels: Sequence[Path], target: Path) -> None:
    """Unpack all wheels into a folder next to `target`, and rename it. Raises `PackagingError`.

    No installer is used: the same wheels give the same files on any computer.
    """
    create_private_folder(target.parent)
    beside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f"{target.name}."))
    try:
        for wheel in wheels:
            _unpack(wheel, beside)
        beside.rename(target)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        if target.is_dir():
            return  # another process was first: the same wheels, the same files
        raise


def _unpack(wheel: Path, target: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as opened:
            for name in opened.namelist():
                _extract(opened, name, target, wheel)
    # What a damaged, an encrypted and an oddly compressed archive raise.
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        problem = f"cannot be unpacked: {error}"
        raise PackagingError(wheel, problem, "do not use this wheel") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        problem = f"has a file where this or a different wheel has a folder: {error.filename}"
        raise PackagingError(wheel, problem, "use one of the two packages") from None


def _extract(wheel: zipfile.ZipFile, name: str, target: Path, file: Path) -> None:
    parts = PurePosixPath(name).parts
    if name.endswith("/") or not parts:
        return
    if ".." in parts or PurePosixPath(name).is_absolute():
        problem = f"contains a file outside its folder: {name}"
        raise PackagingError(file, problem, "do not use this wheel")
    if parts[0].endswith(".data"):
        if len(parts) < 3 or parts[1] not in IMPORTED:
            return
        parts = parts[2:]
    place = target.joinpath(*parts)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(wheel.read(name))
