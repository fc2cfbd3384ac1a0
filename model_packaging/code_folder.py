"""What the code folder of a model itself provides to import."""

from functools import cached_property
from pathlib import Path

from model_packaging import requirements_file
from model_packaging.python_names import Import

# Where a package is named differently from what it is imported as; the common ones.
_IMPORTED_AS = {
    "beautifulsoup4": "bs4",
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


class CodeFolder:
    """code/: its own modules, the vendored lib/, and requirements.txt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def files_of(self, one: Import, *, importer: Path) -> list[Path]:
        """The files of this folder that the import runs; [] where it is not our own module.

        The container puts code/ on the path, so that a name is looked up there first.
        """
        base = self._folder
        if one.level:
            base = importer.parents[one.level - 1]
        parts = one.module.split(".") if one.module else []
        found = self._module(base, parts)
        if one.level and not parts and (base / "__init__.py").is_file():
            found.append(base / "__init__.py")
        if one.level == 0 and not found and not base.joinpath(*parts).is_dir():
            return []
        for name in one.names:
            found += [file for file in self._module(base, [*parts, name]) if file not in found]
        return found

    def leaves(self, one: Import, *, importer: Path) -> bool:
        """Whether a relative import goes above the outermost package of its file."""
        return one.level >= len(importer.relative_to(self._folder).parts)

    def lacks(self, one: Import) -> bool:
        """Whether it names a submodule that a package of this folder does not have."""
        top, *rest = one.module.split(".")
        if one.level or not rest or not (self._folder / top / "__init__.py").is_file():
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

    @property
    def has_requirements(self) -> bool:
        """Whether packages are installed when the container starts: lib/ switches that off."""
        requirements = self._folder / requirements_file.WANTED
        return requirements.is_file() and not (self._folder / "lib").is_dir()

    def requires(self, module: str) -> bool:
        """Whether a package named like the module is in a requirements.txt in force."""
        return self.has_requirements and module.lower() in self._required

    @cached_property
    def _required(self) -> set[str]:
        named = requirements_file.names(self._folder)
        return {_IMPORTED_AS.get(name, name.replace("-", "_")) for name in named}

    def _module(self, base: Path, parts: list[str]) -> list[Path]:
        """The __init__.py of every package on the way, and the module's file."""
        found, at = [], base
        for part in parts:
            package, module = at / part / "__init__.py", at / f"{part}.py"
            if package.is_file():
                found.append(package)
            elif module.is_file():
                return [*found, module]
            elif not (at / part).is_dir():
                return found
            at = at / part
        return found
