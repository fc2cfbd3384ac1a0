"""List the content of one model.tar.gz, and name the archive before it exists: a hash over that content.

Our handler is added where the code has only hooks, or none and the file asks for it: code/inference.py
and the packages that it imports. Its bytes are part of the archive's key, so that another version of the
handler is another model. The packages are taken as files: nothing of them is imported here.
"""

import ast
import hashlib
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from model_packaging.beside import write_atomically
from model_packaging.python_source import find_imports, list_standard_library
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import WARM_UP, list_versions
from model_packaging.tree import (
    Entry,
    Progress,
    ProgressCounter,
    Tree,
    build_unreadable_error,
    extract_signature,
    list_tree,
    merge_trees,
    open_unchanged,
    read_into,
)

HOOKS = "transforms.py"
PACKAGES = ("servable_handler", "servable_tensors")
_LOADED = "inference.py"


@cache
def find_needed_modules() -> frozenset[str]:
    """Return the modules that our handler requires besides the standard library and itself."""
    python = ".".join(map(str, sys.version_info[:2]))
    names = {
        imported.module.split(".")[0]
        for package in PACKAGES
        for file in _find_package_folder(package).rglob("*.py")
        for imported in find_imports(ast.parse(file.read_bytes()))
        if not imported.optional
    }
    return frozenset(names - list_standard_library(python) - {*PACKAGES})


def needs_our_handler(code: Path) -> bool:
    """Return whether the folder has hooks for our handler, and no handler of its own."""
    return (code / HOOKS).is_file() and not (code / _LOADED).is_file()


def build_handler_tree(code: Path | None) -> Tree:
    """List our handler's files. Raises `PackagingError` if a file of the code would hide one of them."""
    for name in (_LOADED, *(taken for package in PACKAGES for taken in (package, f"{package}.py"))):
        if code is not None and (code / name).exists():
            problem = "exists, but Servable's handler also uses the same name"
            raise PackagingError(code / name, problem, "rename it, or remove handler from the file")
    entries = [
        entry
        for name in PACKAGES
        for entry in list_tree(_find_package_folder(name), name=f"code/{name}").entries
    ]
    # The container loads it from code/, and not as a module of the package.
    loaded = f"code/{PACKAGES[0]}/{_LOADED}"
    kept = tuple(entry for entry in entries if entry.name != loaded)
    entry = next(entry for entry in entries if entry.name == loaded)
    handler = _find_package_folder(PACKAGES[0])
    top = Entry("code", handler, handler.stat())
    # Caches of this computer's Python aren't reported as left out.
    return Tree((top, Entry(f"code/{_LOADED}", entry.path, entry.status), *kept), ())


def _find_package_folder(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None  # installed with this package
    assert spec.origin is not None  # its __init__.py
    return Path(spec.origin).parent


# An int64. https://github.com/tensorflow/serving/blob/master/tensorflow_serving/apis/model.proto
_HIGHEST = 2**63 - 1


@dataclass(frozen=True, kw_only=True)
class Servable:
    """A servable, as in TensorFlow Serving: a name, and numbered versions of a SavedModel."""

    name: str
    folder: Path
    """Contains a folder for each version; or is one SavedModel itself, if `version` is given."""
    version: int | None = None
    """The number that a SavedModel without a version folder gets."""
    at_root: bool = False
    """Versions at the archive's root, as the container's multi-model mode requires."""
    warm_up: Path | None = None
    """Contains `<version>/tf_serving_warmup_requests`, for each version's assets.extra/."""

    def find_versions(self) -> dict[int, Path]:
        """Return the folder of each version, lowest version first. Raises `PackagingError`."""
        try:
            if self.version is not None:
                return {self.version: self._find_bare_model()}
            return self._find_version_folders()
        except OSError as error:
            raise build_unreadable_error(self.folder, error) from None

    def _find_version_folders(self) -> dict[int, Path]:
        folders: dict[int, Path] = {}
        for folder in list_versions(self.folder):
            number = int(folder.name)
            if number in folders:
                problem = f"is a second version {number}, because leading zeros are ignored"
                raise PackagingError(folder, problem, "remove one of them")
            if folder.is_symlink():
                raise PackagingError(folder, "is a link to a folder", "replace it with a copy")
            if number > _HIGHEST:
                problem = f"is above {_HIGHEST}, the highest version that the model server supports"
                raise PackagingError(folder, problem, "give it a lower number")
            folders[number] = folder
        return folders

    def list_trees(self) -> list[Tree]:
        """Return the listings that form this servable's part of the archive. Raises `PackagingError`."""
        top = ""
        if not self.at_root:
            if self.name in ("", ".", "..", "code") or "/" in self.name or "\0" in self.name:
                problem = (
                    f"the model's name {self.name!r} cannot be the name of a folder next to code/"
                )
                remedy = "name it with letters, digits and dashes"
                raise PackagingError(self.folder, problem, remedy)
            top = f"{self.name}/"
        versions = self.find_versions()
        listed = ((f"{top}{number}", folder) for number, folder in versions.items())
        trees = [self._list_version(name, folder) for name, folder in listed]
        own = Entry(self.name, self.folder, self.folder.stat())
        ignored: list[Path] = []
        if self.version is None:
            # The container ignores all but versions, in a folder of versions.
            kept = set(versions.values())
            ignored = sorted(path for path in self.folder.iterdir() if path not in kept)
        return [*trees, Tree((own,) if top else (), tuple(ignored))]

    def _list_version(self, name: str, folder: Path) -> Tree:
        saved_model = list_tree(folder, name=name)
        if self.warm_up is None:
            return saved_model
        there = folder / WARM_UP
        if there.exists():
            problem = "exists, but warm_up writes the same file"
            raise PackagingError(there, problem, "remove one of them")
        written = list_tree(self.warm_up / name.rpartition("/")[2], name=f"{name}/{WARM_UP.parent}")
        return merge_trees([saved_model, written])

    def _find_bare_model(self) -> Path:
        if (self.folder / "saved_model.pb").is_file():
            return self.folder
        if not self.folder.is_dir():
            list_versions(self.folder)  # raises an error that names what it is
        problem = f"has no saved_model.pb to use as version {self.version}"
        remedy = "remove version, or set the path of the SavedModel itself"
        raise PackagingError(self.folder, problem, remedy)


# Replaced by code/lib/; the container ignores requirements.txt next to lib/.
RESOLVED = frozenset({"code/requirements.txt", "code/requirements.lock"})


@dataclass(frozen=True, kw_only=True)
class ArchiveInputs:
    """The models of an archive and their code, as they are on this computer."""

    servables: tuple[Servable, ...]
    """The models; the first one answers requests that name none."""
    code: Path | None = None
    lib: Path | None = None
    """Unpacked dependencies, which become code/lib/ instead of the code's requirements."""
    handler: bool = False
    """Whether Servable's handler runs before the model server, also without hooks in the code."""

    @property
    def name(self) -> str:
        return self.servables[0].name

    def build_tree(self) -> Tree:
        """List everything in the archive, and what is left out. Raises `PackagingError`."""
        return merge_trees([self.build_model_tree(), self.build_code_tree()])

    def build_model_tree(self) -> Tree:
        """List the SavedModels of the archive. Raises `PackagingError`."""
        names = Counter(servable.name for servable in self.servables)
        for servable in self.servables:
            if names[servable.name] > 1:
                problem = f"is a second model named {servable.name!r}"
                remedy = "give each model of an archive its own name"
                raise PackagingError(servable.folder, problem, remedy)
        return merge_trees(part for servable in self.servables for part in servable.list_trees())

    def build_code_tree(self) -> Tree:
        """List what the archive contains under code/. Raises `PackagingError`."""
        folder = self.code
        if folder is None:
            return build_handler_tree(None) if self.handler else Tree((), ())
        try:
            ours = self.handler or needs_our_handler(folder)
            has_handler = ours or (folder / "inference.py").is_file()
        except OSError as error:
            raise build_unreadable_error(folder, error) from None
        if not has_handler:
            wrong = "has no inference.py" if folder.is_dir() else "the code folder does not exist"
            remedy = f"add inference.py, or {HOOKS} with hooks, or remove `code`"
            raise PackagingError(folder, wrong, remedy)
        code = list_tree(folder, name="code")
        if ours:
            code = merge_trees([build_handler_tree(folder), code])
        if self.lib is None:
            return code
        if (folder / "lib").exists():
            problem = "exists, but requirements.txt next to it needs the same folder"
            raise PackagingError(folder / "lib", problem, "remove one of them")
        kept = tuple(entry for entry in code.entries if entry.name not in RESOLVED)
        return merge_trees([Tree(kept, code.left_out), list_tree(self.lib, name="code/lib")])


# The coarsest clock among file systems in use is FAT's: 2 s.
# Source: https://learn.microsoft.com/windows/win32/sysinfo/file-times
GRANULARITY_SECONDS = 2.0
FOLDER = "content-hashes"
# Increase it when the same inputs would become different bytes.
PACKER_VERSION = 4
_BUFFER_BYTES = 1 << 20


def compute_key(inputs: ArchiveInputs, *, cache: Path | None = None) -> str:
    """Return the SHA-256, as 64 hex digits, over names, sizes, and contents of all entries.

    `cache`: the project's .servable folder, to read no file twice. Raises `PackagingError`.
    """
    return compute_key_tree_and_hashes(inputs, cache=cache)[0]


def compute_key_tree_and_hashes(
    inputs: ArchiveInputs, *, cache: Path | None = None, progress: Progress | None = None
) -> tuple[str, Tree, dict[str, str]]:
    """Return the key, the listing that it covers, and each file's SHA-256 by archive name.

    `progress` reports the reading of files that the cache doesn't have. Raises `PackagingError`.
    """
    listed_at_seconds = time.time()
    tree = inputs.build_tree()
    content_cache = ContentCache(cache, repr(inputs), tree.files) if cache else None
    hashes: dict[str, str] = {}
    unread: list[Entry] = []
    for entry in tree.files:
        digest = content_cache.find_sha256(entry) if content_cache else None
        if digest is None:
            unread.append(entry)
        else:
            hashes[entry.name] = digest
    counter = ProgressCounter(progress, sum(entry.status.st_size for entry in unread))
    # hashlib lets other threads run: two cores, twice the speed.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        hashing = pool.map(lambda entry: _hash_entry(entry, counter), unread)
        hashes |= dict(zip((entry.name for entry in unread), hashing, strict=True))
    if content_cache:
        content_cache.write(hashes, listed_at_seconds=listed_at_seconds)
    entries = [
        [entry.name] if entry.is_folder else [entry.name, entry.status.st_size, hashes[entry.name]]
        for entry in tree.entries
    ]
    text = json.dumps({"packer": PACKER_VERSION, "entries": entries}, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest(), tree, hashes


def _hash_entry(entry: Entry, counter: ProgressCounter) -> str:
    digest = hashlib.sha256()
    remaining = entry.status.st_size
    buffer = memoryview(bytearray(min(remaining, _BUFFER_BYTES)))
    with open_unchanged(entry) as descriptor:
        while remaining:
            count = read_into(descriptor, buffer[:remaining], entry)
            digest.update(buffer[:count])
            remaining -= count
            counter(count)
    return digest.hexdigest()


class ContentCache:
    """A cache of the SHA-256 of files, one file per set of inputs.

    Path, size, times, and inode identify a file. A file with a missing or damaged entry is read again.
    """

    def __init__(self, folder: Path, name: str, entries: Iterable[Entry]) -> None:
        """Load the cache of one set of inputs, if there is one.

        `folder` is the project's .servable. `name` identifies this set of inputs, however its
        files change: processes that write the cache at the same time write the same content.
        """
        self._entries = list(entries)
        short = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        self.path = folder / FOLDER / f"{short}.json"
        self._rows: dict[str, list[int | str]] = {}
        try:
            checksum, body = self.path.read_text(encoding="utf-8").split("\n", 1)
            rows = json.loads(body) if checksum == _compute_checksum(body) else {}
        except (OSError, ValueError):
            return
        self._rows = rows if isinstance(rows, dict) else {}

    def find_sha256(self, entry: Entry) -> str | None:
        row = self._rows.get(str(_to_absolute_path(entry)))
        if row and row[:-1] == list(extract_signature(entry.status)):
            return str(row[-1])
        return None

    def write(self, hashes: dict[str, str], *, listed_at_seconds: float) -> None:
        """Store the hashes by name in the archive, unless the cache already has them.

        A file isn't stored unless it is older than `listed_at_seconds`, the time before listing, by more than
        its clock's step: it could have changed after it was read, under the same size and times ("racy git":
        https://git-scm.com/docs/racy-git).
        """
        newest = listed_at_seconds - GRANULARITY_SECONDS
        kept = {
            str(_to_absolute_path(entry)): [*extract_signature(entry.status), hashes[entry.name]]
            for entry in self._entries
            if max(entry.status.st_mtime, entry.status.st_ctime) < newest
        }
        if kept == self._rows:
            return
        body = json.dumps(kept, separators=(",", ":"))
        try:
            write_atomically(self.path, f"{_compute_checksum(body)}\n{body}".encode())
        except OSError:
            pass  # the files are read again next time


def _to_absolute_path(entry: Entry) -> Path:
    return Path(os.path.abspath(entry.path))  # noqa: PTH100  (resolve() would ask the disk)


def _compute_checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()
