"""Checks whether the image can import the code and find its handlers, without running it."""

import ast
import math
import sys
from collections.abc import Collection, Iterator
from functools import cached_property, partial
from pathlib import Path

from packaging.utils import parse_wheel_filename

from model_packaging.code_faults.names import (
    IMAGE_MODULES,
    find_foreign_extensions,
    find_hiding_files,
    find_hiding_module,
    find_missing_names,
    find_undefined_names,
)
from model_packaging.code_faults.values import find_value_faults
from model_packaging.dependencies import requirements_file
from model_packaging.dependencies.wheels import read_lock
from model_packaging.handler_functions import CodeFinding, find_function_faults
from model_packaging.inputs import HOOKS, PACKAGES, needs_our_handler
from model_packaging.python_source import (
    PYTHON,
    Import,
    PythonSyntaxError,
    find_imports,
    find_invalid_bytes,
    list_standard_library,
    parse,
)
from model_packaging.refusal import PackagingError

# Where a package is named differently from what it is imported as; the common ones.
_IMPORTED_AS = {
    "beautifulsoup4": "bs4",
    "opencv-contrib-python": "cv2",
    "opencv-contrib-python-headless": "cv2",
    "opencv-python": "cv2",
    "opencv-python-headless": "cv2",
    "pillow": "pil",
    "protobuf": "google",
    "python-dateutil": "dateutil",
    "pyyaml": "yaml",
    "scikit-image": "skimage",
    "scikit-learn": "sklearn",
    "tensorflow-cpu": "tensorflow",
    "tensorflow-serving-api": "tensorflow_serving",
}
# The CPU images contain no TensorFlow (2.1, 2.7, 2.19, 2.20); the GPU ones weren't checked.
_WITHOUT_TENSORFLOW = {
    "tensorflow": "TensorFlow is not in the serving image: the model server is a separate program",
    "tensorflow_serving": "it is in the image, but imports tensorflow, which isn't",
    "keras": "Keras is not in the serving image, and would need TensorFlow there",
}
_RESOLVE = (
    'run `servable package ENV` (its lock lists it), or write [acknowledge] code = "a reason"'
)
_CALL_SERVER = "send the request to context.rest_uri, or build tensors with numpy and protobuf"
# Neither inference.py nor the modules next to it are part of a package in the container.
_RELATIVE = ("uses a relative import outside a package", "import it by its name alone")
_ADD_IT = "add it, or remove the import"


def check_code(
    folder: Path,
    *,
    python: str | None,
    provided: Collection[str] | None,
    variables: Collection[str] | None = None,
    seconds: float = math.inf,
) -> list[CodeFinding]:
    """Return the faults of a model's code, in the order of files and lines. Raises OSError.

    `python`: the image's version ("3.12"). `provided`: its modules besides the standard library.
    `variables`: names that the environment file sets. None: unknown, so that findings which depend on it
    are "not checked". `seconds`: the longest time of a response. Reads only inference.py, or
    transforms.py if our handler loads it, and what it imports.
    """
    code = CodeFolder(folder)
    hooks = needs_our_handler(folder)
    entry = folder / (HOOKS if hooks else "inference.py")
    if not entry.is_file():
        return [CodeFinding(entry, 0, "does not exist", "create it, or remove `code`")]
    known = IMAGE_MODULES.union(list_standard_library(python or PYTHON), PACKAGES if hooks else ())
    there = None if provided is None else known.union(provided)
    findings: list[CodeFinding] = []
    waiting, seen, used = [entry], {entry}, set()
    others: list[Import] = []
    while waiting:
        file = waiting.pop()
        try:
            source = file.read_bytes()
            tree = parse(source, python=python)
            statements = list(find_imports(tree))
            if file == entry:
                findings += find_function_faults(file, tree, hooks=hooks, seconds=seconds)
            findings += find_undefined_names(file, source, python)
            findings += find_value_faults(file, tree, source, code=folder, variables=variables)
            file_of = partial(code.find_file, importer=file)
            findings += find_missing_names(file, tree, file_of, partial(_parse_file, python=python))
        except (PythonSyntaxError, OSError, RecursionError) as bad:
            findings.append(_describe_unreadable_file(file, bad, python))
            continue
        if strange := find_invalid_bytes(source):
            remedy = "save it as UTF-8, or declare its encoding in the first line"
            findings.append(CodeFinding(file, 1, strange, remedy, "warning"))
        for imported in statements:
            used.add(imported.module.partition(".")[0])
            if refused := code.explain_failed_import(imported, importer=file):
                findings.append(CodeFinding(file, imported.line, *refused))
                continue
            files = code.find_files(imported, importer=file)
            waiting += [new for new in files if new not in seen]
            seen.update(files)
            if not files:
                others.append(imported)
                findings += _find_missing_module(file, imported, code, there, python)
    findings += find_hiding_files(folder, used)
    if (folder / requirements_file.WANTED).is_file():
        findings += [CodeFinding(*fault) for fault in requirements_file.find_faults(folder)]
    findings += find_foreign_extensions(folder / "lib", python or "", others)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line))


def _describe_unreadable_file(file: Path, bad: Exception, python: str | None) -> CodeFinding:
    if isinstance(bad, PythonSyntaxError):
        if bad.is_newer:
            here = ".".join(map(str, sys.version_info[:2]))
            problem = f"can't be read by Python {here}, which runs servable: {bad}"
            remedy = f"install servable with Python {python or PYTHON}"
            return CodeFinding(file, bad.line, problem, remedy, "not checked")
        problem = f"is not Python{f' {python}' if python else ''}: {bad}"
        return CodeFinding(file, bad.line, problem, "correct it")
    if isinstance(bad, OSError):
        return CodeFinding(file, 0, f"cannot be read: {bad.strerror}", "let this user read it")
    return CodeFinding(file, 1, "is nested too deeply to be read", "split it into functions")


def _parse_file(file: Path, *, python: str | None) -> ast.Module | None:
    """Return the parsed module, or None if it can't be read, which is a finding of its own."""
    try:
        return parse(file.read_bytes(), python=python)
    except (PythonSyntaxError, OSError):
        return None


class CodeFolder:
    """The folder code/: its own modules, the vendored lib/, and requirements.txt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_files(self, imported: Import, *, importer: Path) -> list[Path]:
        """Return the files of this folder that the import runs, or [] if the module isn't here.

        The container puts code/ on the path, so Python looks up a name there first.
        """
        base = importer.parents[imported.level - 1] if imported.level else self._folder
        parts = imported.module.split(".") if imported.module else []
        files = self._find_module_files(base, parts)
        if imported.level and not parts and (base / "__init__.py").is_file():
            files.append(base / "__init__.py")
        if imported.level == 0 and not files and not base.joinpath(*parts).is_dir():
            return []
        for name in imported.names:
            files += self._find_module_files(base, [*parts, name])
        return list(dict.fromkeys(files))

    def find_file(self, imported: Import, *, importer: Path) -> Path | None:
        """Return the file that defines the imported names; None for other modules and namespaces."""
        if imported.level and self.is_outside_package(imported, importer=importer):
            return None
        if not imported.level and find_hiding_module(imported.module):
            return None
        place = importer.parents[imported.level - 1] if imported.level else self._folder
        place = place.joinpath(*imported.module.split(".")) if imported.module else place
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file() and file.is_relative_to(self._folder):
                return file
        return None

    def is_outside_package(self, imported: Import, *, importer: Path) -> bool:
        """Return whether a relative import goes above the outermost package of its file."""
        return imported.level >= len(importer.relative_to(self._folder).parts)

    def explain_failed_import(self, imported: Import, *, importer: Path) -> tuple[str, str] | None:
        """Return (problem, remedy) if an import fails or gets a different module."""
        if imported.level:
            return _RELATIVE if self.is_outside_package(imported, importer=importer) else None
        if self.is_missing_submodule(imported) and not imported.optional:
            return f"imports {imported.module}, which is not in the code folder", _ADD_IT
        files = self.find_files(imported, importer=importer)
        if files and (other := find_hiding_module(imported.module)):
            name = files[0].relative_to(self._folder)
            return f"imports {imported.module}, which is {other} and not {name}", f"rename {name}"
        return None

    def is_missing_submodule(self, imported: Import) -> bool:
        """Return whether the import names a submodule that its package here doesn't have."""
        top, *rest = imported.module.split(".")
        if imported.level or not rest or not (self._folder / top / "__init__.py").is_file():
            return False
        place = self._folder.joinpath(top, *rest)
        extensions = place.parent.glob(f"{place.name}.*") if place.parent.is_dir() else ()
        return not place.is_dir() and not any(extensions)

    def has_vendored_module(self, module: str) -> bool:
        """Return whether code/lib/ or a folder of that name in code/ has the module."""
        lib = self._folder / "lib"
        if (lib / module).is_dir() or (lib / f"{module}.py").is_file():
            return True
        extensions = [*lib.glob(f"{module}.*.so"), *lib.glob(f"{module}.so")]
        return bool(extensions) or (self._folder / module).is_dir()

    def is_on_extended_path(self, module: str) -> bool:
        """Return whether the code extends sys.path and contains a file or folder of that name."""
        added = any(b"sys.path" in path.read_bytes() for path in self._folder.glob("*.py"))
        return added and any(self._folder.rglob(f"{module}*"))

    @property
    def has_requirements(self) -> bool:
        """Return whether packages are installed when the container starts (lib/ prevents it)."""
        is_vendored = (self._folder / "lib").is_dir()
        return not is_vendored and requirements_file.has_requirements(self._folder)

    def has_requirement_for(self, module: str) -> bool:
        """Return whether an active requirements.txt names a package like the module."""
        return self.has_requirements and module.lower() in self._required_modules

    @cached_property
    def locked_names(self) -> frozenset[str] | None:
        """Return the names of the packages in requirements.lock; None without a valid lock."""
        try:
            wheels = read_lock(self._folder)
        except PackagingError:
            return None
        return frozenset(str(parse_wheel_filename(wheel.name)[0]) for wheel in wheels)

    @cached_property
    def _required_modules(self) -> set[str]:
        named = {*requirements_file.list_packages(self._folder), *(self.locked_names or ())}
        return {_IMPORTED_AS.get(name, name.replace("-", "_")) for name in named}

    def _find_module_files(self, base: Path, parts: list[str]) -> list[Path]:
        """Return the __init__.py of every package on the way, and the module's file."""
        files, at = [], base
        for part in parts:
            package, module = at / part / "__init__.py", at / f"{part}.py"
            if package.is_file():
                files.append(package)
            elif module.is_file():
                return [*files, module]
            elif not (at / part).is_dir():
                return files
            at = at / part
        return files


def _is_plain_module(module: str) -> bool:
    """Return whether it is a module of the standard library without modules inside it."""
    return module in sys.stdlib_module_names and not Path(ast.__file__).with_name(module).is_dir()


def _find_missing_module(
    file: Path,
    imported: Import,
    code: CodeFolder,
    there: Collection[str] | None,
    python: str | None,
) -> Iterator[CodeFinding]:
    statement = f"imports {'.' * imported.level}{imported.module}"
    if imported.optional:
        return
    if imported.level:
        problem = f"{statement}, which is not in the code folder"
        yield CodeFinding(file, imported.line, problem, _ADD_IT)
        return
    top = imported.module.split(".")[0]
    if "." in imported.module and _is_plain_module(top) and imported.module != "os.path":
        problem = f"{statement}, but Python's own {top} is a module without submodules"
        yield CodeFinding(file, imported.line, problem, "import it by its name in the code folder")
        return
    if top in (there or list_standard_library(python or PYTHON)) or code.has_vendored_module(top):
        return
    if code.is_on_extended_path(top):
        return
    why = _WITHOUT_TENSORFLOW.get(top)
    if there is None:
        if not code.has_requirement_for(top):
            remedy = "give AWS's image: the modules of other images are unknown"
            yield CodeFinding(file, imported.line, statement, remedy, "not checked")
    elif why and not code.has_requirement_for(top):
        if not code.has_requirements or code.locked_names is not None:
            yield CodeFinding(file, imported.line, f"{statement}; {why}", _CALL_SERVER)
            return
        problem = f"{statement}; {why}, unless a package in requirements.txt provides it"
        yield CodeFinding(file, imported.line, problem, _RESOLVE, "warning")
    elif code.has_requirements:
        if not code.has_requirement_for(top):
            problem = f"{statement}, which requirements.txt doesn't list"
            remedy = "check that one of its packages provides it"
            yield CodeFinding(file, imported.line, problem, remedy, "warning")
    else:
        problem = f"{statement}, which isn't in the image, code/lib, or the code"
        if top in list_standard_library("3.7") and python:
            problem = (
                f"{statement}, which was removed from Python's standard library before {python}"
            )
        remedy = "add its package to code/requirements.txt, or import it in try/except ImportError"
        yield CodeFinding(file, imported.line, problem, remedy)
