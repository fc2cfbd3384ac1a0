"""Our handler as it goes into an archive: code/inference.py and the package code/serving/.

Added where the code has only hooks, or none and the file asks for it. Its bytes are part of
the archive's key, so that another version of the handler is another model.
"""

import ast
import sys
from functools import cache
from pathlib import Path

import serving
from model_packaging.python_names import imports
from model_packaging.refusal import Refusal
from model_packaging.standard_library import standard_library
from model_packaging.tree import Entry, Tree, tree

HOOKS = "transforms.py"
_FOLDER = Path(serving.__file__).parent
_LOADED = "inference.py"


@cache
def needed_modules() -> frozenset[str]:
    """What it imports beside the standard library and itself, and cannot do without."""
    python = ".".join(map(str, sys.version_info[:2]))
    files = [_FOLDER / name for name in sorted(path.name for path in _FOLDER.glob("*.py"))]
    found = {
        one.module.split(".")[0]
        for file in files
        for one in imports(ast.parse(file.read_bytes()))
        if not one.optional
    }
    return frozenset(found - standard_library(python) - {_FOLDER.name})


def wants_ours(code: Path) -> bool:
    """Whether the folder has hooks for our handler, and no handler of its own."""
    return (code / HOOKS).is_file() and not (code / _LOADED).is_file()


def request_path(code: Path | None) -> Tree:
    """What is added beside the code. Raises `Refusal` where it would hide a file of the code."""
    for name in (_LOADED, "serving", "serving.py"):
        if code is not None and (code / name).exists():
            problem = "is there, and Servable's own handler wants to become the same"
            raise Refusal(code / name, problem, "rename it, or take handler out of the file")
    package = tree(_FOLDER, name="code/serving")
    # Loaded by the container from its own place, and no module of the package.
    kept = tuple(one for one in package.entries if one.name != f"code/serving/{_LOADED}")
    entry = next(one for one in package.entries if one.name == f"code/serving/{_LOADED}")
    top = Entry("code", _FOLDER, _FOLDER.stat())
    loaded = Entry(f"code/{_LOADED}", entry.path, entry.status)
    # Caches of this machine's Python are no news to the user.
    return Tree((top, loaded, *kept), ())
