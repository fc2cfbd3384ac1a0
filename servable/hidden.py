"""Whether `infra`, `stacks` and `model_packaging` are ours: other projects have such names too."""

import sys
from importlib.util import find_spec
from pathlib import Path

# What a CDK project calls its own folders; every other package of ours begins with servable.
SHARED_NAMES = ("infra", "model_packaging", "stacks")
HOME = Path(__file__).resolve().parents[1]


class HiddenPackageError(ImportError):
    """A package of ours cannot be imported. `str()` is the whole sentence, with the remedy."""


def refuse_hidden(names: tuple[str, ...] = SHARED_NAMES) -> None:
    """Raises `HiddenPackageError` where Python finds another package of one of these names first."""
    for name in names:
        place = _place(name)
        if place is not None and place != HOME / name:
            raise HiddenPackageError(
                f"{place}: hides the package {name!r} that Servable has in {HOME}; rename yours, for "
                f"example to my_{name}, or start Python without that folder on its path "
                "(python -P, without PYTHONPATH)"
            )


def _place(name: str) -> Path | None:
    """The folder that `import name` takes, or has taken; None where there is none."""
    module = sys.modules.get(name)
    spec = find_spec(name) if module is None else module.__spec__
    if spec is None:
        return None
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    found = Path(places[0]).resolve() if places else None
    if found is None or not spec.origin:
        return found
    return found.parent if spec.submodule_search_locations is not None else found
