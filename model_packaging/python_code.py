"""Would the image import this code, and find its handlers? Known by reading, never by running."""

import ast
import math
import sys
from collections.abc import Collection, Iterator
from functools import cached_property, lru_cache, partial
from pathlib import Path

from packaging.utils import parse_wheel_filename

from model_packaging.code_faults.names import (
    IMAGE_MODULES,
    foreign_extensions,
    hidden_by,
    hiding_files,
    missing_names,
    undefined_names,
)
from model_packaging.code_faults.values import value_faults
from model_packaging.dependencies import locked, requirements_file
from model_packaging.handler_functions import CodeFinding, function_findings
from model_packaging.inputs import HOOKS, PACKAGES, wants_ours
from model_packaging.python_source import (
    PYTHON,
    Import,
    PythonSyntaxError,
    imports,
    parse,
    standard_library,
    wrong_bytes,
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
# The CPU images hold no TensorFlow (2.1, 2.7, 2.19, 2.20); the GPU ones were not looked into.
_WITHOUT_TENSORFLOW = {
    "tensorflow": "TensorFlow is not in the serving image: its model server is a program of its own",
    "tensorflow_serving": "it is in the image, but it imports tensorflow, which is not",
    "keras": "Keras is not in the serving image, and would need TensorFlow there",
}
_RESOLVE = (
    'run `servable package ENV` (its lock shows it), or write [acknowledge] code = "a reason"'
)
_CALL_SERVER = "send the request to context.rest_uri, or build tensors with numpy and protobuf"
# inference.py is no part of a package there, and what it imports from beside it is not either.
_RELATIVE = ("imports relatively, outside a package", "import it by its name alone")
_ADD_IT = "add it, or take the import out"


def check_code(
    folder: Path,
    *,
    python: str | None,
    provided: Collection[str] | None,
    variables: Collection[str] | None = None,
    seconds: float = math.inf,
) -> list[CodeFinding]:
    """Faults of the code of a model, in the order of files and lines. Raises OSError.

    `python` is the image's ("3.12"), `provided` the modules that it holds beside the
    standard library, `variables` the names that the file sets; None: not known, so that an import
    that depends on it is "not checked". `seconds`: how long an answer may take. Only inference.py, or
    transforms.py where our handler loads that, and what it imports is read, and no training script.
    """
    code = CodeFolder(folder)
    hooks = wants_ours(folder)
    entry = folder / (HOOKS if hooks else "inference.py")
    if not entry.is_file():
        return [CodeFinding(entry, 0, "does not exist", "write it, or leave `code` out")]
    there = _importable(provided, python, hooks)
    findings: list[CodeFinding] = []
    waiting, seen, used = [entry], {entry}, set()
    others: list[Import] = []
    while waiting:
        file = waiting.pop()
        try:
            source = file.read_bytes()
            tree = parse(source, python=python)
            statements = list(imports(tree))
            if file == entry:
                findings += function_findings(file, tree, hooks=hooks, seconds=seconds)
            findings += _undefined(file, source, python)
            findings += value_faults(file, tree, source, code=folder, variables=variables)
            file_of = partial(code.file_of, importer=file)
            findings += missing_names(file, tree, file_of, partial(_parsed, python=python))
        except (PythonSyntaxError, OSError, RecursionError) as bad:
            findings.append(_unreadable(file, bad, python))
            continue
        if strange := wrong_bytes(source):
            remedy = "save it as UTF-8, or declare its encoding in the first line"
            findings.append(CodeFinding(file, 1, strange, remedy, "warning"))
        for imported in statements:
            used.add(imported.module.partition(".")[0])
            if refused := code.refused(imported, importer=file):
                findings.append(CodeFinding(file, imported.line, *refused))
                continue
            files = code.files_of(imported, importer=file)
            waiting += [new for new in files if new not in seen]
            seen.update(files)
            others += [] if files else [imported]
            if not files and not imported.optional:
                findings += _missing(file, imported, code, there, python)
    findings += hiding_files(folder, used)
    if (folder / requirements_file.WANTED).is_file():
        findings += [CodeFinding(*fault) for fault in requirements_file.faults(folder)]
    if (folder / "lib").is_dir():
        findings += foreign_extensions(folder / "lib", python or "", others)
    return sorted(findings, key=lambda finding: (str(finding.file), finding.line))


def _importable(
    provided: Collection[str] | None, python: str | None, hooks: bool
) -> set[str] | None:
    """Return the names of the modules that the image contains, or None if they aren't known."""
    if provided is None:
        return None
    ours = PACKAGES if hooks else ()
    return {*standard_library(python or PYTHON), *provided, *IMAGE_MODULES, *ours}


@lru_cache(maxsize=256)
def _undefined(file: Path, source: bytes, python: str | None) -> tuple[CodeFinding, ...]:
    """Kept, because the environments of a project mostly share their code."""
    return tuple(undefined_names(file, parse(source, python=python), source))


def _unreadable(file: Path, bad: Exception, python: str | None) -> CodeFinding:
    if isinstance(bad, PythonSyntaxError):
        problem = f"is not Python{f' {python}' if python else ''}: {bad}"
        return CodeFinding(file, bad.line, problem, "correct it")
    if isinstance(bad, OSError):
        return CodeFinding(file, 0, f"cannot be read: {bad.strerror}", "let this user read it")
    return CodeFinding(file, 1, "is nested too deeply to be read", "part it into functions")


def _parsed(file: Path, *, python: str | None) -> ast.Module | None:
    """The module; None for one that cannot be read, which is a finding of its own."""
    try:
        return parse(file.read_bytes(), python=python)
    except (PythonSyntaxError, OSError):
        return None


class CodeFolder:
    """code/: its own modules, the vendored lib/, and requirements.txt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files_of(self, imported: Import, *, importer: Path) -> list[Path]:
        """The files of this folder that the import runs; [] where it is not our own module.

        The container puts code/ on the path, so that a name is looked up there first.
        """
        base = self._folder
        if imported.level:
            base = importer.parents[imported.level - 1]
        parts = imported.module.split(".") if imported.module else []
        files = self._module(base, parts)
        if imported.level and not parts and (base / "__init__.py").is_file():
            files.append(base / "__init__.py")
        if imported.level == 0 and not files and not base.joinpath(*parts).is_dir():
            return []
        for name in imported.names:
            files += [file for file in self._module(base, [*parts, name]) if file not in files]
        return files

    def file_of(self, imported: Import, *, importer: Path) -> Path | None:
        """The file whose names the import takes; None for a namespace, and another's module."""
        if imported.level and self.leaves(imported, importer=importer):
            return None
        if not imported.level and hidden_by(imported.module):
            return None
        place = importer.parents[imported.level - 1] if imported.level else self._folder
        place = place.joinpath(*imported.module.split(".")) if imported.module else place
        for file in (place / "__init__.py", place.with_name(f"{place.name}.py")):
            if file.is_file() and file.is_relative_to(self._folder):
                return file
        return None

    def leaves(self, imported: Import, *, importer: Path) -> bool:
        """Whether a relative import goes above the outermost package of its file."""
        return imported.level >= len(importer.relative_to(self._folder).parts)

    def refused(self, imported: Import, *, importer: Path) -> tuple[str, str] | None:
        """(problem, remedy) of an import of this folder's own that fails, or gets another module."""
        if imported.level:
            return _RELATIVE if self.leaves(imported, importer=importer) else None
        if self.lacks(imported) and not imported.optional:
            return f"imports {imported.module}, which is not in the code folder", _ADD_IT
        files = self.files_of(imported, importer=importer)
        if files and (other := hidden_by(imported.module)):
            name = files[0].relative_to(self._folder)
            return f"imports {imported.module}, which is {other} and not {name}", f"rename {name}"
        return None

    def lacks(self, imported: Import) -> bool:
        """Whether it names a submodule that a package of this folder does not have."""
        top, *rest = imported.module.split(".")
        if imported.level or not rest or not (self._folder / top / "__init__.py").is_file():
            return False
        place = self._folder.joinpath(top, *rest)
        extensions = place.parent.glob(f"{place.name}.*") if place.parent.is_dir() else ()
        return not place.is_dir() and not any(extensions)

    def vendors(self, module: str) -> bool:
        """Whether code/lib/ or a folder without Python files of its own has the module."""
        lib = self._folder / "lib"
        if (lib / module).is_dir() or (lib / f"{module}.py").is_file():
            return True
        extensions = [*lib.glob(f"{module}.*.so"), *lib.glob(f"{module}.so")]
        return bool(extensions) or (self._folder / module).is_dir()

    def extends_path(self, module: str) -> bool:
        """Whether the code adds folders to sys.path itself, and one of the name is somewhere in it."""
        added = any(b"sys.path" in path.read_bytes() for path in self._folder.glob("*.py"))
        return added and any(self._folder.rglob(f"{module}*"))

    @property
    def has_requirements(self) -> bool:
        """Whether packages are installed when the container starts: lib/ switches that off."""
        return requirements_file.asks(self._folder) and not (self._folder / "lib").is_dir()

    def requires(self, module: str) -> bool:
        """Whether a package named like the module is in a requirements.txt in force."""
        return self.has_requirements and module.lower() in self._required

    @cached_property
    def resolved(self) -> frozenset[str] | None:
        """Names of the packages in requirements.lock; None without a lock of these requirements."""
        try:
            wheels = locked(self._folder)
        except PackagingError:
            return None
        return frozenset(str(parse_wheel_filename(wheel.name)[0]) for wheel in wheels)

    @cached_property
    def _required(self) -> set[str]:
        named = {*requirements_file.names(self._folder), *(self.resolved or ())}
        return {_IMPORTED_AS.get(name, name.replace("-", "_")) for name in named}

    def _module(self, base: Path, parts: list[str]) -> list[Path]:
        """The __init__.py of every package on the way, and the module's file."""
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


def _is_no_package(module: str) -> bool:
    """Whether it is a module of the standard library without modules inside it."""
    return module in sys.stdlib_module_names and not Path(ast.__file__).with_name(module).is_dir()


def _missing(
    file: Path,
    imported: Import,
    code: CodeFolder,
    there: Collection[str] | None,
    python: str | None,
) -> Iterator[CodeFinding]:
    statement = f"imports {'.' * imported.level}{imported.module}"
    if imported.level:
        problem = f"{statement}, which is not in the code folder"
        yield CodeFinding(file, imported.line, problem, _ADD_IT)
        return
    top = imported.module.split(".")[0]
    if "." in imported.module and _is_no_package(top) and imported.module != "os.path":
        problem = f"{statement}, but Python's own {top} is a module and has none inside it"
        yield CodeFinding(file, imported.line, problem, "import it by its name in the code folder")
        return
    if top in (there or standard_library(python or PYTHON)) or code.vendors(top):
        return
    if code.extends_path(top):
        return
    why = _WITHOUT_TENSORFLOW.get(top)
    if there is None:
        if not code.requires(top):
            remedy = "give AWS's image: the modules of another one are not known"
            yield CodeFinding(file, imported.line, statement, remedy, "not checked")
    elif why and not code.requires(top):
        if not code.has_requirements or code.resolved is not None:
            yield CodeFinding(file, imported.line, f"{statement}; {why}", _CALL_SERVER)
            return
        problem = f"{statement}; {why}, unless a package of requirements.txt brings it"
        yield CodeFinding(file, imported.line, problem, _RESOLVE, "warning")
    elif code.has_requirements:
        if not code.requires(top):
            problem = f"{statement}, which no line of requirements.txt is named after"
            remedy = "check that one of its packages brings it"
            yield CodeFinding(file, imported.line, problem, remedy, "warning")
    else:
        problem = f"{statement}, which neither the image, code/lib nor the code provides"
        if top in standard_library("3.7") and python:
            problem = f"{statement}, which left Python's standard library before {python}"
        remedy = (
            "name its package in code/requirements.txt, or import it inside try/except ImportError"
        )
        yield CodeFinding(file, imported.line, problem, remedy)
