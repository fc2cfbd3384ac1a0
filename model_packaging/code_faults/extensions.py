"""Compiled modules of code/lib/ for a different Python, system, or processor than the image's.

Source: https://docs.python.org/3/library/importlib.html (EXTENSION_SUFFIXES), https://peps.python.org/pep-3149/
"""

import ast
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from model_packaging.handler_functions import CodeFinding
from model_packaging.python_source import Import, PythonSyntaxError, imports, parse

_COMPILED = re.compile(r"([^.]+)(.*)\.(?:so|pyd)")
_TAGS = re.compile(r"\.(?:cpython-|cp)3(\d+)")
_OTHER_SYSTEMS = re.compile(r"darwin|win|musl|aarch64|arm|i386|i686|ppc64|s390x")
# How an ELF file for 64 bits begins, and e_machine of x86-64 at byte 18.
# Source: https://refspecs.linuxfoundation.org/elf/gabi4+/ch4.eheader.html, read 2026-11-29
_ELF_64, _X86_64 = b"\x7fELF\x02", b"\x3e\x00"
_ELF_HEAD = 20
# What only the setup.py of NumPy and its like sets.
_SETUP = re.compile(r"__[A-Z]+_SETUP__")
# Mach-O of both byte orders, its archives of several processors, and Windows.
_OTHER_FILES = (b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"MZ")


def foreign_extensions(lib: Path, python: str, imported: Iterable[Import]) -> Iterator[CodeFinding]:
    """Yield modules of which no file is for the image's Python ("3.12"; "" is not known) on Linux and x86-64.

    It is an error if one of the imports runs the module; many packages do without their compiled parts.
    """
    reasons: dict[Path, list[tuple[Path, str]]] = defaultdict(list)
    for file in sorted(lib.rglob("*.[sp][oy]*")):
        if match := _COMPILED.fullmatch(file.name):
            reasons[file.parent / match[1]].append((file, _reason(file, match[2], python)))
    foreign = {
        module: files[0]
        for module, files in reasons.items()
        if all(why for _, why in files) and not module.with_name(f"{module.name}.py").is_file()
    }
    reached = _reached(lib, imported, python, foreign.keys()) if foreign and python else set()
    failing = {_package(lib, module) for module in reached}
    for module, (file, reason) in foreign.items():
        if module not in reached and _package(lib, module) in failing:
            continue  # one finding is enough for a package
        problem = f"is built for {reason}, and the image has Python {python} on Linux, x86-64"
        remedy = "name its package in requirements.txt, and run `servable package ENV`"
        yield CodeFinding(file, 0, problem, remedy, "error" if module in reached else "warning")


def _reason(file: Path, tags: str, python: str) -> str:
    """Return the other Python, system, or processor of the file; empty if the image may load it."""
    if file.suffix == ".pyd" or _OTHER_SYSTEMS.search(tags):
        return "another system"
    with file.open("rb") as opened:
        head = opened.read(_ELF_HEAD)
    if head.startswith(_OTHER_FILES):
        return "another system"
    if head.startswith(b"\x7fELF") and not (head.startswith(_ELF_64) and head.endswith(_X86_64)):
        return "another processor"
    version = _TAGS.match(tags)
    return f"Python 3.{version[1]}" if version and python not in ("", f"3.{version[1]}") else ""


def _package(lib: Path, module: Path) -> str:
    return module.relative_to(lib).parts[0] if module.is_relative_to(lib) else ""


def _reached(
    lib: Path, imported: Iterable[Import], python: str, foreign: Container[Path]
) -> set[Path]:
    """Return the foreign modules, the first of each package, that these imports are sure to run."""
    waiting = [(lib, each) for each in imported if not each.optional and not each.level]
    seen: set[Path] = set()
    reached: set[Path] = set()
    failing: set[str] = set()
    while waiting:
        base, each = waiting.pop()
        modules = [base]
        for part in filter(None, each.module.split(".")):
            modules.append(modules[-1] / part)
        modules += [modules[-1] / name for name in each.names]
        for module in modules[1:]:
            if module in seen or _package(lib, module) in failing:
                continue
            seen.add(module)
            if module in foreign:
                reached.add(module)
                failing.add(_package(lib, module))
                continue
            package = module / "__init__.py"
            file = package if package.is_file() else module.with_name(f"{module.name}.py")
            for found in _imports_at_load(file, python):
                inside = package if file == package else file
                start = inside.parents[found.level - 1] if found.level else lib
                waiting.append((start, found))
    return reached


def _imports_at_load(file: Path, python: str) -> Iterator[Import]:
    """Yield the imports of a module that run for sure when it is imported."""
    try:
        tree = parse(file.read_bytes(), python=python)
    except (OSError, PythonSyntaxError):
        return
    later = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If)
    at_load = [node for node in tree.body if not isinstance(node, later)]
    for node in tree.body:
        if isinstance(node, ast.If) and _SETUP.fullmatch(ast.unparse(node.test)):
            at_load += node.orelse
    yield from (
        found for found in imports(ast.Module(body=at_load, type_ignores=[])) if not found.optional
    )
