"""Restricts the imports of user code to the image's modules and its own.

The modules of each image: image_modules.json.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from servable_local.container.http_messages import JSON
from servable_local.container.image_code import HEADER, VERSION


def give_imports_of_the_image(import_paths: Sequence[Path]) -> None:
    """Restrict this process, which serves one archive's code, to the imports that the image allows.

    `import_paths`: folders that the image's start script puts on the path. Our modules that are
    imported already work on, but cannot be imported again.
    """
    version = _version()
    os.environ.setdefault(VERSION, version)
    table = _table()
    finder = ImageFinder(version, table["versions"][version], table["of_the_container"])
    finder.refuse_hiding(import_paths)
    for name in list(sys.modules):
        if not finder.is_in_the_image(name):
            del sys.modules[name]
    sys.meta_path[:] = [cast("MetaPathFinder", finder)]
    paths = [str(path) for path in import_paths]
    sys.path[:0] = paths
    # The image overwrites it, so that what user code starts sees the same.
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


class HidingError(ImportError):
    """A file of the archive hides a module that the container's service imports. `str()`: a sentence."""


def python_of_the_image() -> str:
    """As 3.12."""
    python: str = _table()["python"][_version()]
    return python


class ImageFinder(MetaPathFinder):
    """Asks the finders that were there before; refuses what only this computer has.

    A path that is added later (code/, a model's code/lib/) is the user's: all of it is found.
    """

    def __init__(
        self, version: str, modules: Iterable[str], of_the_container: Iterable[str]
    ) -> None:
        self._version = version
        self._of_the_container = frozenset(of_the_container)
        self._modules = frozenset(modules)
        self._finders = list(sys.meta_path)
        self._own_path = frozenset(sys.path)

    def refuse_hiding(self, import_paths: Sequence[Path]) -> None:
        """Raises `HidingError` for a file that the container's service would import in a module's place.

        The image searches code/ and code/lib/ before the standard library. This process has imported its
        modules before it knows those folders, and would never notice.
        """
        for name, module in list(sys.modules.items()):
            origin = Path(getattr(getattr(module, "__spec__", None), "origin", None) or "")
            # What is built in is imported before any search; a module in one file may be a copy.
            searched = origin.suffix == ".py" and self.is_in_the_image(name)
            if searched and (name in sys.stdlib_module_names or origin.name == "__init__.py"):
                for file in (folder / f"{name}.py" for folder in import_paths):
                    if file.is_file():
                        problem = f"hides the module {name}, which the container's service imports"
                        shown = "/".join(file.parts[-2:])
                        raise HidingError(f"{shown} {problem}; rename it", name=name)

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises `ModuleNotFoundError` for a module that this computer has and the image has not."""
        if name in self._of_the_container:
            print(
                f"{name} is the container's own module, which hides a {name}.py of yours; "
                "here it has the names of values alone",
                file=sys.stderr,
            )
            return ModuleSpec(name, _ContainerModule(), origin=f"/sagemaker/{name}.py")
        # A submodule is where its package is, and that was found here.
        if path is not None or self.is_in_the_image(name):
            return self._found_here(name, path, target)
        users = [entry for entry in sys.path if entry not in self._own_path]
        spec = PathFinder.find_spec(name, users, target)
        if spec is not None or self._found_here(name, path, target) is None:
            return spec
        # importlib.util.find_spec asks whether there is such a module: there is none.
        if sys._getframe(2).f_code is importlib.util.find_spec.__code__:
            return None
        raise ModuleNotFoundError(
            f"No module named {name!r} in the image of TensorFlow {self._version}, only on this "
            "computer; name its package in code/requirements.txt, and run: servable package ENV",
            name=name,
        )

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        """Find the image's packages and the user's own, for importlib.metadata."""
        for entry in context.path:
            of_entry = DistributionFinder.Context(name=context.name, path=[entry])
            for package in MetadataPathFinder.find_distributions(of_entry):
                if entry not in self._own_path or any(map(self.is_in_the_image, _tops(package))):
                    yield package

    def is_in_the_image(self, name: str) -> bool:
        """Whether the top-level package of `name` is the image's, or Python's own."""
        top = name.partition(".")[0]
        in_python = top in sys.stdlib_module_names or top == "__main__"
        # Written when Python is built; put beside a package by mypyc.
        generated = top.startswith("_sysconfigdata_") or top.endswith("__mypyc")
        return in_python or generated or top in self._modules

    def _found_here(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in self._finders:
            if (spec := finder.find_spec(name, path, target)) is not None:
                return spec
        return None


class _ContainerModule(Loader):
    """A module of the image's folder /sagemaker, which comes before code/: its values, no functions."""

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "tfs_utils":
            vars(module).update(
                DEFAULT_CONTENT_TYPE=JSON,
                DEFAULT_ACCEPT_HEADER=JSON,
                CUSTOM_ATTRIBUTES_HEADER=HEADER,
            )


def _tops(package: Distribution) -> set[str]:
    """Top-level modules of a distribution."""
    text = package.read_text("top_level.txt")
    return set(text.split() if text else (file.parts[0] for file in package.files or ()))


def _version() -> str:
    """TensorFlow's, of the image; one that is not known is taken for the newest."""
    versions = list(_table()["versions"])  # oldest first
    version = ".".join(os.environ.get(VERSION, "").split(".")[:2])
    return version if version in versions else versions[-1]


def _table() -> dict[str, Any]:
    file = Path(__file__).with_name("image_modules.json")
    table: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    for version, modules in table["versions"].items():
        if isinstance(modules, str):  # a list that several versions share
            table["versions"][version] = table[modules]
    return table
