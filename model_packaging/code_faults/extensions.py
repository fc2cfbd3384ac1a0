"""Compiled modules of code/lib/ that the image's Python does not load: of another Python, or another system.

Source: https://docs.python.org/3/library/importlib.html (EXTENSION_SUFFIXES), https://peps.python.org/pep-3149/
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from model_packaging.handler_functions import CodeFinding

_COMPILED = re.compile(r"([^.]+)(.*)\.(?:so|pyd)")
_TAGS = re.compile(r"\.(?:cpython-|cp)3(\d+)")
_OTHER_SYSTEMS = re.compile(r"darwin|win|aarch64|arm|i386|i686|ppc64|s390x")


def foreign_extensions(lib: Path, python: str) -> Iterator[CodeFinding]:
    """Modules of which no file is for the image's Python ("3.12"; "" is not known) on Linux and x86-64.

    Many packages do without their compiled parts, so that this is a warning.
    """
    reasons: dict[Path, list[tuple[Path, str]]] = defaultdict(list)
    for file in sorted(lib.rglob("*.[sp][oy]*")):
        if match := _COMPILED.fullmatch(file.name):
            reasons[file.parent / match[1]].append((file, _reason(match[2], file.suffix, python)))
    for files in reasons.values():
        file, reason = files[0]
        if all(why for _, why in files):
            problem = f"is built for {reason}, and the image has Python {python} on Linux, x86-64"
            remedy = "name its package in requirements.txt, and run: servable package ENV"
            yield CodeFinding(file, 0, problem, remedy, "warning")


def _reason(tags: str, suffix: str, python: str) -> str:
    """The other Python or system that the file is for; empty if the image may load it."""
    if suffix == ".pyd" or _OTHER_SYSTEMS.search(tags):
        return "another system"
    version = _TAGS.match(tags)
    return f"Python 3.{version[1]}" if version and python not in ("", f"3.{version[1]}") else ""
