"""Rules about a model's source, and about models that share an archive or an endpoint."""

from infra.parameters.finding import Finding, Severity, meant
from infra.parameters.model import ModelTable
from infra.preflight.rule import Findings, ModelRule, artifact_example

# Parts of S3 keys under which objects are usually overwritten.
MOVING = frozenset({"latest", "current", "newest", "last", "live", "prod", "production", "stable"})


SOURCES = ("saved_model", "artifact", "multi_model")
# Keys that control how a SavedModel is packed.
PACKING = ("code", "handler", "version", "also_serves", "warm_up", "compression", "install")


class ModelSource(ModelRule):
    """A model has one source: packed here, an archive in S3, or several models. Only packing takes code."""

    example = artifact_example('models.ranker.saved_model = "model"')

    def look(self, name: str, _: ModelTable) -> Findings:
        key = f"models.{name}"
        # Read from the file and not from the draft, where a source with a problem is missing.
        written = self.loaded.source.values.get("models", {}).get(name, {})
        sources = [source for source in SOURCES if source in written]
        if len(sources) != 1:
            excluded = " and ".join(sources) + " exclude each other"
            yield self.finding(
                f"{key}.{sources[1] if sources else SOURCES[0]}",
                excluded if sources else "neither saved_model nor artifact is given",
                given=sources,
                allowed="one of saved_model, artifact and multi_model",
                remedy="take one out" if sources else "add saved_model with the model's folder",
            )
        elif sources != ["saved_model"]:
            for packing in (part for part in PACKING if part in written):
                yield self._not_packed_here(f"{key}.{packing}", sources[0], written)

    def _not_packed_here(self, key: str, source: str, written: dict[str, object]) -> Finding:
        packing = key.rpartition(".")[2]
        reason = "multi_model: each of its models has keys of its own"
        remedy = "write it into the table of the model it is for, or take it out"
        if source == "artifact":
            reason, remedy = "an artifact, which is packed already", "take it out"
            if packing == "code":
                remedy = "pack it into the artifact as code/, or take it out"
        problem = f"{packing} has no effect with {reason}"
        return self.finding(key, problem, given=written[packing], remedy=remedy)


class ModelsTogether(ModelRule):
    """Models that share an archive or a prefix must be packed here and share one code folder."""

    example = 'models.ranker.also_serves = ["scorer"]'
    allowed = "models of this file with saved_model, each named once"

    def look(self, name: str, model: ModelTable) -> Findings:
        for key in ("also_serves", "multi_model"):
            others = getattr(model, key) or []
            for number, other in enumerate(others):
                again = other == name or other in others[:number]
                wrong = self._wrong(other, again, name, key)
                if wrong is not None:
                    problem, remedy = wrong
                    yield self.finding(f"models.{name}.{key}", problem, given=other, remedy=remedy)

    def _wrong(self, other: str, again: bool, name: str, key: str) -> tuple[str, str] | None:
        model = self.environment.models.get(other)
        if model is None:
            return f"there is no model {other!r}", meant(other, sorted(self.environment.models))
        if again:
            return f"{other!r} is listed already", "take it out"
        if model.saved_model is None:
            return f"{other!r} has no saved_model to pack", "give it one, or take it out"
        code = self.environment.models[name].code
        if key == "also_serves" and model.code not in (None, code):
            problem = f"{other!r} has its own code, but an archive has only one code folder"
            return problem, f"name the same folder in both, or take models.{other}.code out"
        if key == "multi_model" and model.compression == "none":
            return (
                f"{other!r} has compression none, but these models must be archives",
                "take that out",
            )
        return None


class ArtifactMovingKey(ModelRule):
    """Under a key like latest/ the object may be overwritten while the file still has the old hash."""

    # Instances that scaling adds would then serve another model than the running ones.

    severity = Severity.WARNING
    example = artifact_example(folder="latest")
    allowed = "a key that is written once, such as run-17/model.tar.gz"
    remedy = "copy the archive to a key of its own and write that"

    def look(self, name: str, model: ModelTable) -> Findings:
        parts = model.artifact.uri.lower().split("/")[3:-1] if model.artifact else []
        moving = [part for part in parts if part in MOVING]
        if model.artifact and moving:
            yield self.finding(
                f"models.{name}.artifact.uri",
                f"the key contains {moving[0]!r}: the object is likely to be overwritten",
            )
