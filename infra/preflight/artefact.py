"""The model and its code, as they lie on this machine."""

from collections.abc import Iterator
from pathlib import Path

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight.example import artifact
from infra.preflight.rule import Rule
from model_packaging.inputs import ArchiveInputs
from model_packaging.refusal import Refusal
from model_packaging.saved_model import read, versions

# Names of keys that somebody will write again.
MOVING = frozenset({"latest", "current", "newest", "last", "live", "prod", "production", "stable"})


class ModelHasOneSource(Rule):
    """A model is packed here, or lies in S3 already; its code goes where it is packed."""

    id = "model-source"
    example = artifact() + '\nmodels.ranker.saved_model = "model"'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            key = f"models.{name}"
            written = loaded.source.values.get("models", {}).get(name, {})
            # From the file and not from the draft: a source with a problem of its own is one.
            sources = {"saved_model", "artifact"} & set(written)
            if len(sources) != 1:
                yield self.finding(
                    loaded,
                    f"{key}.artifact" if sources else f"{key}.saved_model",
                    sorted(sources),
                    "both saved_model and artifact"
                    if sources
                    else "no saved_model and no artifact",
                    allowed="one of saved_model and artifact",
                    remedy="take one out" if sources else "add saved_model with the model's folder",
                )
            elif "artifact" in sources and model.code is not None:
                yield self.finding(
                    loaded,
                    f"{key}.code",
                    model.code,
                    "code beside an artifact: nothing is packed here that it could go into",
                    remedy="pack it into the artifact as code/, or take it out",
                )


class ArtifactKeyIsItsOwn(Rule):
    """Under a key like latest/ the object changes while the file still names the old hash.

    Instances that scaling adds would then serve another model than those that run.
    """

    id = "artifact-moving-key"
    severity = Severity.WARNING
    acknowledgeable = True
    example = artifact(folder="latest")

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            parts = model.artifact.uri.lower().split("/")[3:-1] if model.artifact else []
            moving = [part for part in parts if part in MOVING]
            if model.artifact and moving:
                yield self.finding(
                    loaded,
                    f"models.{name}.artifact.uri",
                    model.artifact.uri,
                    f"the key holds {moving[0]!r}: what lies there will change",
                    allowed="a key that is written once, as run-17/model.tar.gz",
                    remedy="copy it to a key of its own and name that",
                )


class ModelCanBePacked(Rule):
    """What the container would not load, or not find, is known before it leaves the machine."""

    id = "artefact"
    example = 'models.ranker.saved_model = "nowhere"'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            if model.saved_model is None:
                continue
            inputs = ArchiveInputs(
                model=name,
                saved_model=loaded.root / model.saved_model,
                code=loaded.root / model.code if model.code else None,
            )
            parts = {"saved_model": inputs.model_entries, "code": inputs.code_entries}
            for part, entries in parts.items():
                try:
                    entries()
                except Refusal as refusal:
                    given = getattr(model, part)
                    yield self._found(loaded, refusal, f"models.{name}.{part}", given)
                except (OSError, RuntimeError) as wrong:
                    # Names too long for the disk, links in a circle.
                    folder: Path = getattr(inputs, part)
                    said = Refusal(folder, f"cannot be read: {wrong}", "mend it")
                    given = getattr(model, part)
                    yield self._found(loaded, said, f"models.{name}.{part}", given)

    def _found(self, loaded: Loaded, refusal: Refusal, key: str, given: str) -> Finding:
        path = _shown(loaded.root, refusal.path)
        return self.finding(loaded, key, given, f"{path}: {refusal.problem}", remedy=refusal.remedy)


def _shown(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


class ModelCanBeLoaded(Rule):
    """A SavedModel that is cut short, or has nothing to call, is found after minutes of loading.

    Read without TensorFlow: graph, signatures, variables.
    """

    id = "saved-model"
    example = "# a saved_model.pb that is cut short"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        for name, model in environment.models.items():
            try:
                folders = versions(loaded.root / model.saved_model) if model.saved_model else []
            except (Refusal, OSError, RuntimeError):
                continue  # the rule above says so
            for folder in folders:
                try:
                    read(folder)
                except Refusal as refusal:
                    path = _shown(loaded.root, refusal.path)
                    yield self.finding(
                        loaded,
                        f"models.{name}.saved_model",
                        model.saved_model,
                        f"{path}: {refusal.problem}",
                        remedy=refusal.remedy,
                    )
