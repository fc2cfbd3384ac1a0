"""Wheels made on the spot, or of what is installed here, for tests that have no index."""

import base64
import hashlib
import re
import zipfile
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path


def wheel(
    folder: Path,
    name: str,
    version: str = "1.0",
    tag: str = "py3-none-any",
    *,
    requires: tuple[str, ...] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """A wheel of one module that says which wheel it came from."""
    info = f"{name}-{version}.dist-info"
    said = {
        f"{name}.py": f"TAG = {tag!r}\n".encode(),
        **{path: text.encode() for path, text in (files or {}).items()},
        f"{info}/METADATA": (
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            + "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
        ).encode(),
    }
    return _written(folder / f"{name}-{version}-{tag}.whl", info, tag, said)


def installed_wheel(folder: Path, name: str, python: str, machine: str) -> Path:
    """The package as it is installed here, as a wheel that says it is for another Python and platform.

    Its compiled modules have that Python's names, so that this one does not find them.
    """
    package = distribution(name)
    digits = python.replace(".", "")
    info = f"{name}-{package.version}.dist-info"
    said = {
        re.sub(r"\.cpython-\d+-", f".cpython-{digits}-", str(file)): file.read_binary()
        for file in package.files or []
        if not str(file).startswith((".", info)) and file.suffix != ".pyc"
    }
    said[f"{info}/METADATA"] = (package.read_text("METADATA") or "").encode()
    tag = f"cp{digits}-cp{digits}-manylinux_2_17_{machine}"
    return _written(folder / f"{name}-{package.version}-{tag}.whl", info, tag, said)


def _written(file: Path, info: str, tag: str, said: dict[str, bytes]) -> Path:
    root = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
    said[f"{info}/WHEEL"] = f"{root}Tag: {tag}\n".encode()
    record = "".join(f"{path},sha256={_digest(it)},{len(it)}\n" for path, it in said.items())
    said[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    with zipfile.ZipFile(file, "w") as opened:
        for path, content in said.items():
            opened.writestr(path, content)
    return file


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
