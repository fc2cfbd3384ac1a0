"""Rules about a model's source: its files and code on this computer, or an archive.

Models may share an archive or an endpoint.
"""

from dataclasses import replace
from pathlib import Path

from infra.packing import build_servable
from infra.parameters.finding import Finding, Severity, suggest_name, suggest_path
from infra.parameters.model import ModelTable
from infra.parameters.sources import format_path
from infra.preflight.rule import Findings, ModelRule
from model_packaging.inputs import ArchiveInputs
from model_packaging.refusal import PackagingError
from model_packaging.requests import known_requests
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE, WARM_UP

# Parts of S3 keys under which objects are usually overwritten.
MOVING = frozenset({"latest", "current", "newest", "last", "live", "prod", "production", "stable"})
SOURCES = ("saved_model", "artifact", "multi_model")
# Keys that control how a SavedModel is packed.
PACKING = ("code", "handler", "version", "also_serves", "warm_up", "compression", "install")


class ModelSource(ModelRule):
    """A model has one source: packed here, an archive in S3, or several models. Only packing takes code."""

    def find_problems(self, name: str, _: ModelTable) -> Findings:
        table = f"models.{name}"
        # Read from the file and not from the draft, where a source with a problem is missing.
        written = self.loaded.source.values.get("models", {}).get(name, {})
        sources = [source for source in SOURCES if source in written]
        if not sources:
            problem = "neither saved_model nor artifact is given"
            remedy = "add saved_model with the model's folder"
            yield self.build_finding(f"{table}.{SOURCES[0]}", problem, remedy=remedy)
        elif len(sources) > 1:
            key, problem = f"{table}.{sources[1]}", " and ".join(sources) + " exclude each other"
            yield self.build_finding(key, problem, given=sources, remedy="remove one")
        elif sources != ["saved_model"]:
            for packing in (part for part in PACKING if part in written):
                problem = f"{packing} has no effect with multi_model: each of its models has keys of its own"
                remedy = "write it into the table of the model it is for, or remove it"
                if sources == ["artifact"]:
                    problem = f"{packing} has no effect with an artifact, which is packed already"
                    remedy = "pack it into the artifact as code/, or remove it"
                    remedy = remedy if packing == "code" else "remove it"
                key, given = f"{table}.{packing}", written[packing]
                yield self.build_finding(key, problem, given=given, remedy=remedy)


class ModelsTogether(ModelRule):
    """Models that share an archive or a prefix must be packed here and share one code folder."""

    example = 'models.ranker.also_serves = ["scorer"]'

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        for list_key in ("also_serves", "multi_model"):
            others = getattr(model, list_key) or []
            for number, other in enumerate(others):
                again = other == name or other in others[:number]
                if wrong := self._find_problem(other, again, name, list_key):
                    key, (problem, remedy) = f"models.{name}.{list_key}", wrong
                    yield self.build_finding(key, problem, given=other, remedy=remedy)

    def _find_problem(self, other: str, again: bool, name: str, key: str) -> tuple[str, str] | None:
        models = self.environment.models
        model = models.get(other)
        if model is None:
            return f"there is no model {other!r}", suggest_name(other, sorted(models))
        if again:
            return f"{other!r} is listed already", "remove it"
        if model.saved_model is None:
            return f"{other!r} has no saved_model to pack", "give it one, or remove it"
        if key == "also_serves" and model.code not in (None, models[name].code):
            problem = f"{other!r} has its own code, but an archive has only one code folder"
            return problem, f"name the same folder in both, or remove models.{other}.code"
        if key == "multi_model" and model.compression == "none":
            problem = f"{other!r} has compression none, but these models must be archives"
            return problem, "take that out"
        return None


class ArtifactMovingKey(ModelRule, severity=Severity.WARNING):
    """Under a key like latest/ the object may be overwritten while the file still has the old hash."""

    key = "models.{name}.artifact.uri"
    problem = "the key contains {moving!r}: the object is likely to be overwritten"
    remedy = "copy the archive to a unique key, such as run-17/model.tar.gz, and write that key"

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        parts = model.artifact.uri.lower().split("/")[3:-1] if model.artifact else []
        if moving := [part for part in parts if part in MOVING]:
            yield self.build_finding(moving=moving[0])


# What the container, or Servable's handler, reads in code/; and where people put it.
CODE_FILES = ("inference.py", "transforms.py", "requirements.txt")
CODE = ("code", "")


class PackedModelRule(ModelRule):
    """A rule about a model that is packed here: it reports what packing would reject."""

    def build_refusal(self, wrong: Exception, folder: Path, key: str, given: object) -> Finding:
        """Return the finding for an error of packing or files, such as a circular link."""
        if isinstance(wrong, PackagingError):
            refusal = wrong
        elif isinstance(wrong, OSError) and wrong.filename:
            problem = f"cannot be read: {wrong.strerror}"
            refusal = PackagingError(Path(wrong.filename), problem, "let this user read it")
        else:
            refusal = PackagingError(folder, f"cannot be read: {wrong}", "correct the path")
        problem = f"{format_path(refusal.path, self.loaded.root)}: {refusal.problem}"
        return self.build_finding(key, problem, given=given, remedy=refusal.remedy)


class Artefact(PackedModelRule):
    """Files that the container would not find or load are reported before the archive is published."""

    example = 'models.ranker.saved_model = "nowhere"'

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        if model.saved_model is None:
            return
        inputs = ArchiveInputs(
            servables=(build_servable(name, model),),
            code=model.code.path if model.code else None,
            handler=model.handler == "servable",
        )
        trees = {"saved_model": inputs.build_model_tree, "code": inputs.build_code_tree}
        for part, tree in trees.items():
            try:
                tree()
            except (PackagingError, OSError, RuntimeError) as wrong:
                given = getattr(model, part) or model.saved_model
                finding = self.build_refusal(wrong, given.path, f"models.{name}.{part}", given)
                other = suggest_path(given, self.loaded.root)
                yield replace(finding, remedy=other or finding.remedy)


class CodeInsideModel(PackedModelRule, acknowledgeable=True):
    """Code next to or inside the versions is dropped, or packed where the container never reads it.

    Source: https://sagemaker.readthedocs.io/en/stable/frameworks/tensorflow/deploying_tensorflow_serving.html
    ("code/inference.py"), and serve.py of https://github.com/aws/deep-learning-containers, which reads
    /opt/ml/model/code alone (2026-11-24)
    """

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        if model.saved_model is None:
            return
        folder, given = model.saved_model.path, model.code
        own = given.path.resolve() if given else None
        versions = self.candidate.find_version_folders(name)
        for place in dict.fromkeys(each / part for each in (folder, *versions) for part in CODE):
            files = " and ".join(file for file in CODE_FILES if (place / file).is_file())
            if not files or place.resolve() == own:
                continue
            shown = format_path(place, self.loaded.root)
            inside = bool(model.version) or any(place.is_relative_to(one) for one in versions)
            effect = ", which isn't packed: code has its own key"
            if inside:
                effect = " inside the version, where the container never reads it"
            remedy = f'write code = "{shown}" next to saved_model'
            if inside or given or place == folder:
                moved = given or f"{model.saved_model.rstrip('/')}-code"
                remedy = f'move it to {moved}/, and write code = "{moved}" next to saved_model'
            key, problem = f"models.{name}.saved_model", f"{shown} contains {files}{effect}"
            yield self.build_finding(key, problem, given=None, remedy=remedy, subject=shown)


class SavedModel(PackedModelRule):
    """A SavedModel that is truncated, or has no signature, would fail only after minutes of loading.

    A warm-up record that fails, such as one with more rows than max_batch_size, keeps the container
    from starting.
    Source: tensorflow_serving/servables/tensorflow/saved_model_warmup.cc and bundle_factory_util.cc in
    https://github.com/tensorflow/serving (9d981c5, 2026-11-22)
    """

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        for folder in self.candidate.find_version_folders(name):
            try:
                info = self.candidate.read_saved_model(folder)
                if info.has_warm_up:
                    rows = self.candidate.find_max_batch_size(name)
                    known_requests.check_warm_up(folder / WARM_UP, info, max_batch_size=rows)
            except (PackagingError, OSError) as wrong:
                key = f"models.{name}.saved_model"
                yield self.build_refusal(wrong, folder, key, model.saved_model)


class SignatureDefaultMissing(PackedModelRule, severity=Severity.WARNING):
    """A request without a signature name uses serving_default; if there is none, it is answered with 400.

    Source: https://github.com/tensorflow/serving/blob/master/tensorflow_serving/apis/model.proto (2026-11-22)
    """

    key = "models.{name}.saved_model"
    problem = (
        f"version {{version}} has no signature {DEFAULT_SIGNATURE}, which requests without a signature name "
        "use; it has {signatures}"
    )

    def find_problems(self, name: str, _: ModelTable) -> Findings:
        for folder, info in self.candidate.read_saved_models(name):
            if DEFAULT_SIGNATURE not in info.signatures:
                remedy = f'export with signatures={{"{DEFAULT_SIGNATURE}": …}}, or accept it'
                names = ", ".join(info.signatures)
                yield self.build_finding(remedy=remedy, version=folder.name, signatures=names)


class WarmUp(PackedModelRule):
    """Golden requests become warm-up records, which the model must be able to answer."""

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        key = f"models.{name}.warm_up"
        requests = [file.path for file in model.warm_up]
        for folder, info in self.candidate.read_saved_models(name) if requests else ():
            if info.has_warm_up:
                remedy = "remove it, or remove warm_up from the environment file"
                existing = PackagingError(folder / WARM_UP, "exists already", remedy)
                yield self.build_refusal(existing, folder, key, model.warm_up)
            for given, file in zip(model.warm_up, requests, strict=True):
                try:
                    sent, rows = (
                        known_requests.read_golden_request(file),
                        self.candidate.find_max_batch_size(name),
                    )
                    known_requests.build_warm_up(name, {file: sent}, info, max_batch_size=rows)
                except PackagingError as wrong:
                    yield self.build_refusal(wrong, folder, key, given)
