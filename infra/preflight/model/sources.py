"""Where a model comes from, and which models come together."""

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity, meant
from infra.preflight.rule import Findings, Rule, artifact_example

# Names of keys that somebody will write again.
MOVING = frozenset({"latest", "current", "newest", "last", "live", "prod", "production", "stable"})


SOURCES = ("saved_model", "artifact", "multi_model")
# What says how a SavedModel becomes an archive.
PACKING = ("code", "handler", "version", "also_serves", "warm_up", "compression", "install")


class ModelSource(Rule):
    """A model is packed here, lies in S3 already, or is several; its code goes where it is packed."""

    example = artifact_example('models.ranker.saved_model = "model"')

    def check(self, environment: Environment) -> Findings:
        for name in environment.models:
            key = f"models.{name}"
            written = self.loaded.source.values.get("models", {}).get(name, {})
            # From the file and not from the draft: a source with a problem of its own is one.
            sources = [one for one in SOURCES if one in written]
            if len(sources) != 1:
                yield self.finding(
                    f"{key}.{sources[1] if sources else SOURCES[0]}",
                    "both " + " and ".join(sources)
                    if sources
                    else "no saved_model and no artifact",
                    given=sources,
                    allowed="one of saved_model, artifact and multi_model",
                    remedy="take one out" if sources else "add saved_model with the model's folder",
                )
            elif sources != ["saved_model"]:
                for packing in (one for one in PACKING if one in written):
                    yield self._not_packed_here(f"{key}.{packing}", sources[0], written)

    def _not_packed_here(self, key: str, source: str, written: dict[str, object]) -> Finding:
        packing = key.rpartition(".")[2]
        if source == "artifact":
            remedy = "pack it into the artifact as code/, or take it out"
            return self.finding(
                key,
                f"{packing} beside an artifact: nothing is packed here that it could go into",
                given=written[packing],
                remedy=remedy if packing == "code" else "take it out",
            )
        return self.finding(
            key,
            f"{packing} beside multi_model: each of its models is packed as its own table says",
            given=written[packing],
            remedy="write it in the table of the model it is for, or take it out",
        )


class ModelsTogether(Rule):
    """Models in one archive, or under one prefix, are packed here and answer with one code."""

    example = 'models.ranker.also_serves = ["scorer"]'

    def check(self, environment: Environment) -> Findings:
        for name, model in environment.models.items():
            for key in ("also_serves", "multi_model"):
                others = getattr(model, key) or []
                for number, other in enumerate(others):
                    again = other == name or other in others[:number]
                    wrong = self._wrong(environment, other, again, name, key)
                    if wrong is not None:
                        problem, remedy = wrong
                        yield self.finding(
                            f"models.{name}.{key}",
                            problem,
                            given=other,
                            allowed="models of this file with saved_model, each once",
                            remedy=remedy,
                        )

    def _wrong(
        self, environment: Environment, other: str, again: bool, name: str, key: str
    ) -> tuple[str, str] | None:
        model = environment.models.get(other)
        if model is None:
            return f"there is no model {other!r}", meant(other, sorted(environment.models))
        if again:
            return f"{other!r} is in there already", "take it out"
        if model.saved_model is None:
            return f"{other!r} has no saved_model to pack", "give it one, or take it out"
        code = environment.models[name].code
        if key == "also_serves" and model.code not in (None, code):
            problem = f"{other!r} has a code of its own, and one archive has one code/"
            return problem, f"name the same folder in both, or take models.{other}.code out"
        if key == "multi_model" and model.compression == "none":
            return f"{other!r} has compression none; here models are archives", "take that out"
        return None


class ArtifactMovingKey(Rule):
    """Under a key like latest/ the object changes while the file still names the old hash.

    Instances that scaling adds would then serve another model than those that run.
    """

    severity = Severity.WARNING
    example = artifact_example(folder="latest")

    def check(self, environment: Environment) -> Findings:
        for name, model in environment.models.items():
            parts = model.artifact.uri.lower().split("/")[3:-1] if model.artifact else []
            moving = [part for part in parts if part in MOVING]
            if model.artifact and moving:
                yield self.finding(
                    f"models.{name}.artifact.uri",
                    f"the key holds {moving[0]!r}: what lies there will change",
                    allowed="a key that is written once, as run-17/model.tar.gz",
                    remedy="copy it to a key of its own and name that",
                )
