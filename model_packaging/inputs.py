"""Content of one model.tar.gz, and under which names."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from model_packaging.refusal import PackagingError
from model_packaging.request_path import HOOKS, request_path, wants_ours
from model_packaging.servable import Servable
from model_packaging.tree import Tree, joined, tree, unreadable

# Said by code/lib/ once it is there; the container ignores requirements.txt beside lib/.
RESOLVED = frozenset({"code/requirements.txt", "code/requirements.lock"})


@dataclass(frozen=True, kw_only=True)
class ArchiveInputs:
    """One model or several, and their code, on this computer."""

    servables: tuple[Servable, ...]
    """The models; the first one answers requests that name none."""
    code: Path | None = None
    lib: Path | None = None
    """Unpacked dependencies, which become code/lib/ in the place of the code's requirements."""
    handler: bool = False
    """Whether Servable's handler runs before the model server, also without hooks in the code."""

    @property
    def name(self) -> str:
        return self.servables[0].name

    def tree(self) -> Tree:
        """Everything in the archive, folders too, and what is left out. Raises `PackagingError`."""
        return joined([self.model_tree(), self.code_tree()])

    def model_tree(self) -> Tree:
        """The part of `tree` that is SavedModels. Raises `PackagingError`."""
        names = Counter(servable.name for servable in self.servables)
        for servable in self.servables:
            if names[servable.name] > 1:
                problem = f"is the model {servable.name!r} a second time"
                raise PackagingError(
                    servable.folder, problem, "give each model of an archive its own name"
                )
        return joined(part for servable in self.servables for part in servable.trees())

    def code_tree(self) -> Tree:
        """The part of `tree` under code/. Raises `PackagingError`."""
        folder = self.code
        if folder is None:
            return request_path(None) if self.handler else Tree((), ())
        try:
            ours = self.handler or wants_ours(folder)
            has_handler = ours or (folder / "inference.py").is_file()
        except OSError as error:
            raise unreadable(folder, error) from None
        if not has_handler:
            wrong = "holds no inference.py" if folder.is_dir() else "the code folder does not exist"
            remedy = f"add inference.py, or {HOOKS} with hooks, or leave `code` out"
            raise PackagingError(folder, wrong, remedy)
        code = tree(folder, name="code")
        if ours:
            code = joined([request_path(folder), code])
        if self.lib is None:
            return code
        if (folder / "lib").exists():
            problem = "is there, and requirements.txt beside it wants to become the same folder"
            raise PackagingError(folder / "lib", problem, "take one of them out")
        kept = tuple(entry for entry in code.entries if entry.name not in RESOLVED)
        return joined([Tree(kept, code.left_out), tree(self.lib, name="code/lib")])
