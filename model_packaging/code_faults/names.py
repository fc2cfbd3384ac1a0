"""Find names and modules that fail in the container, in code that is read and never run.

Names that another module does not have, or that nothing defines; files that hide modules of the
container, or are hidden by them; and compiled modules for a different Python, system, or processor.
The container runs `python3 /sagemaker/python_service.py` with code/ and code/lib/ as PYTHONPATH, so
that a module is searched in /sagemaker, code/, code/lib/, the standard library, and the packages.
Pyflakes finds undefined names. What it cannot know, and what Python never looks up, is left out: annotations
that are not evaluated, branches for another place, and modules that define names while they run.
Sources: https://github.com/aws/deep-learning-containers (at e0ecede, 2026-08-21), serve.py and
python_service.py in scripts/docker/tensorflow/inference/sagemaker;
https://docs.python.org/3/library/importlib.html (EXTENSION_SUFFIXES), https://peps.python.org/pep-3149/
"""

import ast
import difflib
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from model_packaging.handler_functions import CodeFinding
from model_packaging.python_source import (
    Import,
    PythonSyntaxError,
    extract_last_name,
    find_imports,
    find_top_level_names,
    is_environment_check,
    is_never_true,
    parse,
)

# Code that may give a module names which no reader sees.
_DYNAMIC = re.compile(r"\bglobals\(\)|\bexec\(|\bsetattr\(|__dict__|sys\.modules|\bvars\(")
FileOf = Callable[[Import], Path | None]
"""The file of this folder whose names an import takes; None: another module, or a namespace."""


def find_missing_names(
    file: Path, tree: ast.Module, file_of: FileOf, parsed: Callable[[Path], ast.Module | None]
) -> Iterator[CodeFinding]:
    """Yield each `from module import name` or `module.name` that the module doesn't define.

    Only modules of the code folder are checked.
    """
    for imported in find_imports(tree):
        own = file_of(imported)
        if own is None or imported.optional:
            continue
        names = _find_names(parsed(own))
        for name in imported.names:
            if name != "*" and names is not None and not _is_defined(own, name, names):
                yield _build_missing_finding(file, imported.line, own, name, names)
    modules = _find_module_bindings(tree, file_of)
    if not modules:
        return
    tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try)]
    guarded = {id(part) for node in tries for part in ast.walk(ast.Module(node.body, []))}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        own = modules.get(node.value.id)
        names = _find_names(parsed(own)) if own is not None else None
        if own is None or names is None or id(node) in guarded or node.attr.startswith("__"):
            continue
        if not _is_defined(own, node.attr, names):
            yield _build_missing_finding(file, node.lineno, own, node.attr, names)


def _find_names(tree: ast.Module | None) -> set[str] | None:
    """Return the names of the module, or None if reading can't determine them."""
    if tree is None or _DYNAMIC.search(ast.unparse(tree)):
        return None
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Global)]
    names = find_top_level_names(tree).union(*(node.names for node in nodes))
    return None if names & {"*", "__getattr__"} else names


def _is_defined(own: Path, name: str, names: set[str]) -> bool:
    if name in names or (name.startswith("__") and name.endswith("__")):
        return True
    beside = own.parent if own.name == "__init__.py" else None
    return beside is not None and ((beside / name).exists() or any(beside.glob(f"{name}.*")))


def _find_module_bindings(tree: ast.Module, file_of: FileOf) -> dict[str, Path]:
    """Return the names that the file binds to a module of the folder, and to nothing else."""
    bound: dict[str, Path] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for alias in node.names:
            module, level = alias.name, 0
            if isinstance(node, ast.ImportFrom):
                module, level = ".".join(filter(None, (node.module, alias.name))), node.level
            elif alias.asname is None and "." in alias.name:
                continue
            if own := file_of(Import(module, (), node.lineno, level, False)):
                bound[alias.asname or alias.name] = own
    for node in ast.walk(tree) if bound else ():
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.pop(node.id, None)
        elif isinstance(node, ast.arg | ast.ExceptHandler | ast.FunctionDef | ast.ClassDef):
            bound.pop((node.arg if isinstance(node, ast.arg) else node.name) or "", None)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            bound.pop(ast.unparse(node.value), None)  # module.name = …
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("hasattr", "getattr"):
            bound.pop(ast.unparse(node.args[0]) if node.args else "", None)
    return bound


def _build_missing_finding(
    file: Path, line: int, own: Path, name: str, names: set[str]
) -> CodeFinding:
    close = difflib.get_close_matches(name, sorted(names), n=1)
    remedy = "define it there, or import it from elsewhere"
    remedy = f"did you mean {close[0]}?" if close else remedy
    problem = f"imports {name} from {own.name}, which does not define it"
    return CodeFinding(file, line, problem, remedy)


# Modules in /sagemaker; then those that Python has imported before it searches any folder.
IMAGE_MODULES = frozenset({"multi_model_utils", "python_service", "serve", "tfs_utils"})
_FIRST = IMAGE_MODULES | {"abc", "codecs", "errno", "gc", "io", "itertools", "os", "site", "stat"}
_FIRST |= {"atexit", "builtins", "marshal", "posix", "posixpath", "sys", "time", "zipimport"}
# sys.modules of gevent, falcon, grpc, gunicorn and requests after what python_service.py imports and
# one request (Python 3.11, 2026-11-24); then what the packages of the image import besides.
_OF_THE_SERVICE = """
argparse array ast asyncio base64 binascii bisect bz2 calendar cgi collections concurrent contextlib
contextvars copy copyreg csv dataclasses datetime dis email encodings enum fcntl fnmatch functools gettext
glob grp hashlib heapq hmac html http importlib inspect ipaddress json keyword linecache locale logging lzma
math mimetypes multiprocessing netrc opcode operator pathlib pickle platform queue quopri random re reprlib
select selectors shlex shutil signal socket socketserver ssl string stringprep struct subprocess tempfile
textwrap threading token tokenize traceback types typing unicodedata urllib uuid warnings weakref xml zipfile
zlib certifi charset_normalizer falcon gevent greenlet grpc gunicorn idna packaging requests urllib3 zope
"""
_OF_PACKAGES = {
    "numpy": "ctypes numbers secrets",
    "scipy": "ctypes numbers numpy secrets",
    "pandas": "cmath ctypes dateutil decimal gzip mmap numbers numpy secrets tarfile zoneinfo",
    "sklearn": "ctypes decimal gzip joblib mmap numbers numpy scipy secrets tarfile",
    "boto3": "botocore configparser dateutil decimal getpass gzip jmespath s3transfer secrets",
    "google": "numbers",
}
_FEW_FILES = 3  # of a package: a copy of a published one has more


def find_hiding_module(module: str) -> str | None:
    """Describe the module that Python imports instead of the code's own; None if there is none."""
    top = module.partition(".")[0]
    if top not in _FIRST:
        return None
    return f"the container's own {top}.py" if top in IMAGE_MODULES else f"Python's own {top}"


def find_hiding_files(folder: Path, imported: Collection[str]) -> Iterator[CodeFinding]:
    """Yield modules of code/ and code/lib/ that hide a module of the service, or of an imported package."""
    users = dict.fromkeys(_OF_THE_SERVICE.split(), "the container's service")
    for package in sorted(_OF_PACKAGES.keys() & set(imported)):
        users = dict.fromkeys(_OF_PACKAGES[package].split(), package) | users
    for place in (folder, folder / "lib"):
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            file = path / "__init__.py" if path.is_dir() else path
            is_module = path.stem in users and file.suffix == ".py" and file.is_file()
            if is_module and not _is_copy(path.stem, file):
                problem = f"hides the module {path.stem} that {users[path.stem]} imports"
                yield CodeFinding(file, 1, problem, "rename it")


def _is_copy(name: str, file: Path) -> bool:
    """Return whether the file is the module itself, or a backport of it."""
    if name not in sys.stdlib_module_names:
        return file.name == "__init__.py" and len(list(file.parent.rglob("*.py"))) >= _FEW_FILES
    spec = find_spec(name)
    try:
        ours = find_top_level_names(ast.parse(file.read_bytes()))
        original = find_top_level_names(ast.parse(Path((spec and spec.origin) or "").read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False  # a module of C
    public = {public for public in original if not public.startswith("_")}
    return 2 * len(public & ours) > len(public)


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


def find_foreign_extensions(
    lib: Path, python: str, imported: Iterable[Import]
) -> Iterator[CodeFinding]:
    """Yield a finding for each compiled module that has no file for the image.

    The image has Python `python` ("" if it isn't known) on Linux x86-64. A finding is an error if one of
    the imports runs the module, and otherwise a warning: many packages don't need their compiled parts.
    """
    reasons: dict[Path, list[tuple[Path, str]]] = defaultdict(list)
    for file in sorted(lib.rglob("*.[sp][oy]*")):
        if match := _COMPILED.fullmatch(file.name):
            why = _explain_mismatch(file, match[2], python)
            reasons[file.parent / match[1]].append((file, why))
    foreign = {
        module: files[0]
        for module, files in reasons.items()
        if all(why for _, why in files) and not module.with_name(f"{module.name}.py").is_file()
    }
    reached: set[Path] = set()
    if foreign and python:
        reached = _find_reached_modules(lib, imported, python, foreign.keys())
    failing = {_find_package(lib, module) for module in reached}
    for module, (file, reason) in foreign.items():
        if module not in reached and _find_package(lib, module) in failing:
            continue  # one finding is enough for a package
        problem = f"is built for {reason}, but the image has Python {python} on Linux, x86-64"
        remedy = "add its package to requirements.txt, and run `servable package ENV`"
        yield CodeFinding(file, 0, problem, remedy, "error" if module in reached else "warning")


def _explain_mismatch(file: Path, tags: str, python: str) -> str:
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


def _find_package(lib: Path, module: Path) -> str:
    return module.relative_to(lib).parts[0] if module.is_relative_to(lib) else ""


def _find_reached_modules(
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
            if module in seen or _find_package(lib, module) in failing:
                continue
            seen.add(module)
            if module in foreign:
                reached.add(module)
                failing.add(_find_package(lib, module))
                continue
            package = module / "__init__.py"
            file = package if package.is_file() else module.with_name(f"{module.name}.py")
            for found in _find_load_imports(file, python):
                inside = package if file == package else file
                start = inside.parents[found.level - 1] if found.level else lib
                waiting.append((start, found))
    return reached


def _find_load_imports(file: Path, python: str) -> Iterator[Import]:
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
    found = find_imports(ast.Module(body=at_load, type_ignores=[]))
    yield from (each for each in found if not each.optional)


# Names of a module that `dir(builtins)` lacks. https://docs.python.org/3/reference/datamodel.html
_OF_A_MODULE = {"__path__", "__cached__", "__dict__"}
# Code that may define names in a way that no reader sees.
_DEFINES_NAMES = re.compile(rb"\b(exec\(|globals\(\)|builtins\.|locals\(\)\.update)|__builtins__")


@lru_cache(maxsize=256)
def find_undefined_names(file: Path, source: bytes, python: str | None) -> list[CodeFinding]:
    """Return names that raise NameError or UnboundLocalError, and formats that raise, once.

    They are cached because the environments of a project mostly share their code.
    """
    # Imported late: most of the commands read no code.
    from pyflakes import checker, messages

    if _DEFINES_NAMES.search(source):
        return []
    tree = parse(source, python=python)
    undefined = (messages.UndefinedName, messages.UndefinedLocal)
    formats = (
        messages.PercentFormatMissingArgument,
        messages.PercentFormatPositionalCountMismatch,
        messages.PercentFormatExpectedMapping,
        messages.StringDotFormatMissingArgument,
    )
    try:
        checked = checker.Checker(tree, str(file), builtins=_OF_A_MODULE, withDoctest=False)
        problems = checked.messages
    except RecursionError:
        return []
    unread = set(_find_unevaluated(tree))
    findings: dict[str, CodeFinding] = {}
    for problem in sorted(problems, key=lambda message: (message.lineno, message.col)):
        if isinstance(problem, undefined) and (problem.lineno, problem.col) not in unread:
            name = problem.message_args[0]
            text, remedy = f"uses {name}, which is not defined", "define or import it"
            if isinstance(problem, messages.UndefinedLocal):
                text = f"uses {name} before its function assigns it"
                remedy = f"write `global {name}` into the function, or rename the local variable"
        elif isinstance(problem, formats):
            text = f"fails: {problem.message % problem.message_args}"
            remedy = "match values to the format"
        else:
            continue
        findings.setdefault(text, CodeFinding(file, problem.lineno, text, remedy))
    return list(findings.values())


def _find_unevaluated(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """Yield (line, column) of expressions never looked up, or perhaps defined by then."""
    futures = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    deferred = any(
        node.module == "__future__" and "annotations" in [alias.name for alias in node.names]
        for node in futures
    )
    for node in ast.walk(tree):
        unread: list[ast.AST | None] = []
        if isinstance(node, ast.If) and is_never_true(node.test):
            unread += node.body
        elif isinstance(node, ast.If) and is_environment_check(node.test):
            unread += [*node.body, *node.orelse]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            # Python doesn't evaluate annotations of local variables.
            inside = ast.walk(ast.Module(node.body, []))
            unread += [part.annotation for part in inside if isinstance(part, ast.AnnAssign)]
            unread += [node.returns] if deferred else []
        elif isinstance(node, ast.arg | ast.AnnAssign) and deferred:
            unread.append(node.annotation)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.While):
            # The previous iteration may have assigned the name.
            names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
            stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
            unread += [n for n in names if n.id in stored and isinstance(n.ctx, ast.Load)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            unread.append(node)  # a string instead of a type
        # A test whether the name exists. Pyflakes knows `except NameError` itself.
        if isinstance(node, ast.Try) and node in tree.body:
            unread += node.body if any(map(_is_catch_all, node.handlers)) else []
        for part in filter(None, unread):
            for each in ast.walk(part):
                if isinstance(each, ast.expr):
                    yield each.lineno, each.col_offset


def _is_catch_all(handler: ast.ExceptHandler) -> bool:
    return handler.type is None or extract_last_name(handler.type) in ("Exception", "BaseException")
