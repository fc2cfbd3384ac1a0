"""The model and its code, as they lie on this machine."""

from collections.abc import Iterator
from pathlib import Path

from infra.packing import servable
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.parameters.model import Model
from infra.preflight.rule import Rule
from model_packaging.inputs import ArchiveInputs
from model_packaging.refusal import PackagingError
from model_packaging.saved_model import read
from model_packaging.saved_model.reading import WARM_UP
from model_packaging.warm_up import check_warm_up, golden, write_warm_up


class Artefact(Rule):
    """What the container would not load, or not find, is known before it leaves the machine."""

    id = "artefact"
    example = 'models.ranker.saved_model = "nowhere"'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            if model.saved_model is None:
                continue
            inputs = ArchiveInputs(
                servables=(servable(name, model, loaded.root),),
                code=loaded.root / model.code if model.code else None,
                handler=model.handler == "servable",
            )
            parts = {"saved_model": inputs.model_tree, "code": inputs.code_tree}
            for part, tree in parts.items():
                try:
                    tree()
                except (PackagingError, OSError, RuntimeError) as wrong:
                    given = getattr(model, part) or ""
                    said = _said(loaded, wrong, loaded.root / given)
                    yield _found(self, loaded, said, f"models.{name}.{part}", given)


class SavedModel(Rule):
    """A SavedModel that is cut short, or has nothing to call, is found after minutes of loading.

    Read without TensorFlow: graph, signatures, variables, and warm-up records, of which one
    that fails makes the whole model fail.
    """

    id = "saved-model"
    example = "# a saved_model.pb that is cut short"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            for folder in _versions(loaded, name, model):
                try:
                    info = read(folder)
                    if info.has_warm_up:
                        check_warm_up(folder / WARM_UP, info)
                except (PackagingError, OSError) as wrong:
                    said = _said(loaded, wrong, folder)
                    key = f"models.{name}.saved_model"
                    yield _found(self, loaded, said, key, model.saved_model)


class WarmUp(Rule):
    """Golden requests become warm-up records, which the model must be able to answer."""

    id = "warm-up"
    example = "# a request in models.ranker.warm_up that the signature does not take"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            requests = [loaded.root / file for file in model.warm_up]
            for folder in _versions(loaded, name, model) if requests else []:
                try:
                    info = read(folder)
                except (PackagingError, OSError):
                    continue  # the rule above says so
                if info.has_warm_up:
                    said = PackagingError(
                        folder / WARM_UP,
                        "is there already",
                        "take it out, or warm_up from the file",
                    )
                    yield _found(self, loaded, said, f"models.{name}.warm_up", model.warm_up)
                for given, file in zip(model.warm_up, requests, strict=True):
                    try:
                        write_warm_up(name, {file: golden(file)}, info)
                    except PackagingError as wrong:
                        yield _found(self, loaded, wrong, f"models.{name}.warm_up", given)


def _versions(loaded: Loaded, name: str, model: Model) -> list[Path]:
    if model.saved_model is None:
        return []
    try:
        return list(servable(name, model, loaded.root).versions().values())
    except (PackagingError, OSError, RuntimeError):
        return []  # ModelCanBePacked says so


def _said(loaded: Loaded, wrong: Exception, folder: Path) -> PackagingError:
    """Names too long for the disk and links in a circle are no refusals of ours."""
    if isinstance(wrong, PackagingError):
        return wrong
    if isinstance(wrong, OSError) and wrong.filename:
        problem = f"cannot be read: {wrong.strerror}"
        return PackagingError(Path(wrong.filename), problem, "let this user read it")
    return PackagingError(folder, f"cannot be read: {wrong}", "mend it")


def _found(rule: Rule, loaded: Loaded, refusal: PackagingError, key: str, given: object) -> Finding:
    path, root = refusal.path, loaded.root
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    return rule.finding(loaded, key, given, f"{shown}: {refusal.problem}", remedy=refusal.remedy)
