"""Our handler as it goes into an archive: code/inference.py and the packages that it imports.

Added where the code has only hooks, or none and the file asks for it. Its bytes are part of
the archive's key, so that another version of the handler is another model. The packages are
taken as files: nothing of them is imported here.
"""

import ast
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from model_packaging.python_source import imports, standard_library
from model_packaging.refusal import PackagingError
from model_packaging.tree import Entry, Tree, tree

HOOKS = "transforms.py"
PACKAGES = ("servable_handler", "servable_tensors")
_LOADED = "inference.py"


@cache
def needed_modules() -> frozenset[str]:
    """Modules that it imports beside the standard library and itself, and cannot do without."""
    python = ".".join(map(str, sys.version_info[:2]))
    files = [file for package in PACKAGES for file in sorted(_folder(package).rglob("*.py"))]
    names = {
        imported.module.split(".")[0]
        for file in files
        for imported in imports(ast.parse(file.read_bytes()))
        if not imported.optional
    }
    return frozenset(names - standard_library(python) - {*PACKAGES})


def wants_ours(code: Path) -> bool:
    """Whether the folder has hooks for our handler, and no handler of its own."""
    return (code / HOOKS).is_file() and not (code / _LOADED).is_file()


def request_path(code: Path | None) -> Tree:
    """The files beside the code. Raises `PackagingError` where one would hide a file of it."""
    for name in (_LOADED, *(taken for package in PACKAGES for taken in (package, f"{package}.py"))):
        if code is not None and (code / name).exists():
            problem = "is there, and Servable's own handler wants to become the same"
            raise PackagingError(code / name, problem, "rename it, or take handler out of the file")
    entries = [
        entry for name in PACKAGES for entry in tree(_folder(name), name=f"code/{name}").entries
    ]
    # The container loads it from code/, and not as a module of the package.
    loaded = f"code/{PACKAGES[0]}/{_LOADED}"
    kept = tuple(entry for entry in entries if entry.name != loaded)
    entry = next(entry for entry in entries if entry.name == loaded)
    handler = _folder(PACKAGES[0])
    top = Entry("code", handler, handler.stat())
    # Caches of this computer's Python are no news to the user.
    return Tree((top, Entry(f"code/{_LOADED}", entry.path, entry.status), *kept), ())


def _folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None  # installed with this package
    assert spec.origin is not None  # its __init__.py
    return Path(spec.origin).parent
