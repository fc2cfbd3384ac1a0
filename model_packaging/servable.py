"""One model of an archive: its name in the container, and where its versions lie."""

from dataclasses import dataclass
from pathlib import Path

from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import WARM_UP, versions
from model_packaging.tree import Entry, Tree, joined, tree, unreadable

# An int64. https://github.com/tensorflow/serving/blob/master/tensorflow_serving/apis/model.proto
_HIGHEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Servable:
    """A servable, in TensorFlow Serving's words: a name, and numbered versions of a SavedModel."""

    name: str
    folder: Path
    """Holds a folder for each version; or is one SavedModel itself, where `version` is given."""
    version: int | None = None
    """The number that a SavedModel without a version folder gets."""
    at_root: bool = False
    """Versions at the archive's root, as the container's multi-model mode wants them."""
    warm_up: Path | None = None
    """Holds `<version>/tf_serving_warmup_requests`, to go into each version's assets.extra/."""

    def versions(self) -> dict[int, Path]:
        """The folder of each version, lowest first. Raises `PackagingError`."""
        try:
            return self._numbered() if self.version is None else {self.version: self._bare()}
        except OSError as error:
            raise unreadable(self.folder, error) from None

    def _numbered(self) -> dict[int, Path]:
        folders: dict[int, Path] = {}
        for folder in versions(self.folder):
            number = int(folder.name)
            if number in folders:
                problem = f"is version {number} a second time: leading zeros are dropped"
                raise PackagingError(folder, problem, "take one of them out")
            if folder.is_symlink():
                raise PackagingError(folder, "is a link to a folder", "put a copy in its place")
            if number > _HIGHEST:
                problem = f"is above {_HIGHEST}, the highest version that the model server counts"
                raise PackagingError(folder, problem, "give it a lower number")
            folders[number] = folder
        return folders

    def trees(self) -> list[Tree]:
        """The listings that are this servable's part of the archive. Raises `PackagingError`."""
        top = ""
        if not self.at_root:
            if self.name in ("", ".", "..", "code") or "/" in self.name or "\0" in self.name:
                problem = f"the model's name {self.name!r} cannot be a folder beside code/"
                remedy = "name it with letters, digits and dashes"
                raise PackagingError(self.folder, problem, remedy)
            top = f"{self.name}/"
        versions = self.versions()
        trees = [self._version(f"{top}{number}", folder) for number, folder in versions.items()]
        own = Entry(self.name, self.folder, self.folder.stat())
        ignored: list[Path] = []
        if self.version is None:
            # The container ignores all but versions, in a folder of versions.
            kept = set(versions.values())
            ignored = sorted(path for path in self.folder.iterdir() if path not in kept)
        return [*trees, Tree((own,) if top else (), tuple(ignored))]

    def _version(self, name: str, folder: Path) -> Tree:
        saved_model = tree(folder, name=name)
        if self.warm_up is None:
            return saved_model
        there = folder / WARM_UP
        if there.exists():
            problem = "is there, and warm_up wants to become the same file"
            raise PackagingError(there, problem, "take one of them out")
        written = tree(self.warm_up / name.rpartition("/")[2], name=f"{name}/{WARM_UP.parent}")
        return joined([saved_model, written])

    def _bare(self) -> Path:
        if (self.folder / "saved_model.pb").is_file():
            return self.folder
        if not self.folder.is_dir():
            versions(self.folder)  # says what it is in place of a folder
        problem = f"holds no saved_model.pb that could become version {self.version}"
        raise PackagingError(
            self.folder, problem, "take version out, or name the SavedModel itself"
        )
