"""Check that Python imports Servable's `infra`, `stacks`, and `model_packaging`.

Other projects use these names, too.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

# Names that CDK projects use for their own folders; the other packages begin with servable.
SHARED_NAMES = ("infra", "model_packaging", "stacks")
HOME = Path(__file__).resolve().parents[2]


class HiddenPackageError(ImportError):
    """The error for a package that hides one of Servable. `str()` is a whole sentence with the remedy."""


def reject_hidden_packages(names: tuple[str, ...] = SHARED_NAMES) -> None:
    """Raise `HiddenPackageError` if Python finds a different package under one of `names`."""
    for name in names:
        path = _find_package_folder(name)
        if path is not None and path != HOME / name:
            raise HiddenPackageError(
                f"{path}: this package hides the package {name!r} of Servable in {HOME}; rename yours, for "
                f"example to my_{name}, or start Python with -P and without PYTHONPATH"
            )


def _find_package_folder(name: str) -> Path | None:
    """Return the folder that `import name` uses, or None if there is no such package."""
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else module.__spec__
    if spec is None:
        return None
    paths = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    path = Path(paths[0]).resolve() if paths else None
    if path is None or not spec.origin:
        return path
    return path.parent if spec.submodule_search_locations is not None else path
