"""Rules about golden requests, checked against code, signature and batching, and about replayed outputs."""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from infra.catalog import images
from infra.parameters.batch.job import parse_media_type
from infra.parameters.finding import Finding, Severity, suggest_name, suggest_path
from infra.parameters.model import Golden
from infra.parameters.placement import Placement
from infra.parameters.table import ProjectPath
from infra.preflight.rule import Candidate, Findings, Parts, Rule
from model_packaging.inputs import HOOKS, needs_our_handler
from model_packaging.python_source import find_top_level_names
from model_packaging.refusal import PackagingError
from model_packaging.requests.json_requests import RequestValueError
from model_packaging.requests.known_requests import (
    CSV,
    TYPES_READ,
    KnownRequest,
    Reader,
    check_batch,
    check_response,
    read_request,
)
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE

Target = tuple[Placement, str]
"""A placement that answers, and the name of the model that is requested."""


class KnownRequestRule(Rule):
    """A rule about a file with a request or a response."""

    def build_missing_file_finding(self, key: str, file: str) -> Finding:
        init = "write one there; `servable init` writes golden/NAME/request.json"
        remedy = suggest_path(file, self.loaded.root) or init
        return self.build_finding(key, f"there is no file {file}", remedy=remedy)

    def check_request(
        self, key: str, file: ProjectPath, sent_as: str, targets: Iterable[Target]
    ) -> Findings:
        """Yield findings for a request that the container would reject."""
        for placement, model in targets:
            try:
                if validate_request(self.candidate, placement, model, file, sent_as) is None:
                    needs = "--run: code may change the request, so only a run can tell"
                    yield self.build_unchecked(key, needs, f"whether the model accepts {file}")
            except OSError:
                continue  # a missing file is reported already
            except RequestValueError as bad:
                yield self.build_finding(
                    key,
                    f"{file}: the request {bad}",
                    remedy="correct the request, or the table of the model or the variant",
                    reads=(placement.build_key("container"), f"models.{model}"),
                )


def find_file(file: ProjectPath) -> Path | None:
    """Return the path of the file, or None if the file doesn't exist."""
    try:
        return file.path if file.path.is_file() else None
    except OSError:
        return None


class GoldenRule(KnownRequestRule):
    """A rule about each golden request: `find_problems` takes the model's name, its key, and it."""

    def list_parts(self) -> Parts:
        for name, model in self.environment.models.items():
            for below, golden in model.golden_requests.items():
                yield name, f"models.{name}.{below}", golden


class GoldenRequest(GoldenRule, acknowledgeable=True):
    """A golden request that the model rejects would fail `servable verify` only after the deployment.

    If code may change the request, the rule checks only that the file exists, and that a .json file is
    JSON.
    Source: https://www.tensorflow.org/tfx/serving/api_rest (2026-11-22); tensorflowServing.js of the
    image's public source, https://github.com/aws/deep-learning-containers (read 2026-11-22)
    """

    def find_problems(self, name: str, table: str, golden: Golden) -> Findings:
        key, targets = f"{table}.request", _find_targets(self.candidate, name)
        if find_file(golden.request) is None:
            yield self.build_missing_file_finding(key, golden.request)
        yield from self.check_request(key, golden.request, golden.request_content_type, targets)


class GoldenAnswer(GoldenRule, acknowledgeable=True):
    """A golden answer must have the form of the signature's outputs, or no answer ever equals it.

    Source: https://www.tensorflow.org/tfx/serving/api_rest (2026-11-22)
    """

    remedy = "write the model's response to the file with `servable invoke --output`"
    reads = ("models.{name}",)

    def find_problems(self, name: str, table: str, golden: Golden) -> Findings:
        key, answer = f"{table}.answer", golden.answer
        if answer is None:
            return
        file, sent_as = find_file(answer), golden.request_content_type
        if file is None:
            question = f"whether {answer} has the format of the model's outputs"
            needs = f"{answer}, which `servable invoke --output` writes"
            yield self.build_unchecked(key, needs, question)
            return
        for placement, _ in _find_targets(self.candidate, name):
            try:
                sent = validate_request(self.candidate, placement, name, golden.request, sent_as)
            except (OSError, RequestValueError):
                continue  # the rule GoldenRequest reports it
            try:
                if sent is not None:
                    check_response(file.read_bytes(), sent)
            except RequestValueError as bad:
                yield self.build_finding(key, f"{answer}: the response {bad}")


class RowsAboveShape(Rule, acknowledgeable=True):
    """A model whose first dimension is fixed rejects requests with more rows, unless code splits them.

    Source: https://www.tensorflow.org/tfx/serving/api_rest (2026-11-29)
    """

    key = "traffic.rows_per_request"
    problem = "requests of {rows} rows: {name}, version {version}, accepts {most} at a time"
    remedy = "export the model with an unknown first dimension, or send {most} at a time"
    reads = ("models.{name}.saved_model",)

    def find_problems(self) -> Findings:
        rows = self.environment.traffic.rows_per_request
        if rows is None:
            return
        names = {
            name
            for placement in self.candidate.placements
            for name in self.candidate.list_served_models(placement)
            if find_reader(self.candidate, placement, name)[0] is not Reader.CODE
        }
        for name in sorted(names):
            for folder, info in self.candidate.read_saved_models(name):
                signature = info.signatures.get(DEFAULT_SIGNATURE)
                shapes = [tensor.shape for tensor in signature.inputs.values()] if signature else []
                fixed = [shape[0] for shape in shapes if shape and shape[0] is not None]
                if fixed and len(fixed) == len(shapes) and max(fixed) < rows:
                    version = folder.name
                    yield self.build_finding(rows=rows, name=name, version=version, most=max(fixed))


class ContentTypeRefused(Rule, severity=Severity.WARNING):
    """A content type that neither NGINX nor Servable's handler reads is answered with 415.

    Source: tensorflowServing.js, https://github.com/aws/deep-learning-containers
    (read 2026-11-22), observed with the code of 2.20; servable_tensors/codecs.py
    """

    example = 'traffic.content_types = ["image/jpeg"]'
    key = "traffic.content_types"
    problem = "{read_by} ({model}) rejects {content_type} with 415"
    remedy = "send one of those, or add code that reads it (models.{model}.code, preprocess in transforms.py)"
    reads = ("models.{model}",)

    def find_problems(self) -> Findings:
        for placement in self.candidate.placements:
            for model in placement.model.multi_model or [placement.variant.model]:
                if model not in self.environment.models:
                    continue
                read_by, _ = find_reader(self.candidate, placement, model)
                types = TYPES_READ.get(read_by)
                for content_type in self.environment.traffic.content_types:
                    if types is not None and parse_media_type(content_type) not in types:
                        yield self.build_finding(
                            given=content_type,
                            allowed=", ".join(types),
                            read_by=read_by.value,
                            model=model,
                            content_type=content_type,
                        )


def _find_targets(candidate: Candidate, model: str) -> list[Target]:
    """Return the variants that get requests for the model, or the batches if no variant has it."""
    for places in (candidate.placements, candidate.containers):
        if found := [
            (placement, model)
            for placement in places
            if model in (placement.model.multi_model or [placement.variant.model])
        ]:
            return found
    return []


def validate_request(
    candidate: Candidate, placement: Placement, model: str, file: ProjectPath, sent_as: str
) -> KnownRequest | None:
    """Validate a request against its reader, signature, and batching.

    Returns None if nothing can be concluded. Raises `RequestValueError` for a request that is
    rejected, and OSError.
    """
    read_by, hooks = find_reader(candidate, placement, model)
    old = not images.has_feature("rewritten_code", placement.tensorflow)
    if old and sent_as == CSV and read_by is Reader.NGINX:
        return None  # images before 2.20 convert CSV in another way
    try:
        # The newest version answers requests that name no version.
        folders = candidate.find_version_folders(model)
        info = candidate.read_saved_model(folders[-1]) if folders else None
    except (PackagingError, OSError):
        info = None  # the rule SavedModel reports it
    request = read_request(file.path.read_bytes(), sent_as, info, read_by)
    if request is None:
        return None
    batching = placement.variant.container.batching
    check_batch(request.shapes, batching.max_batch_size if batching else None)
    return request._replace(answered_in=None) if "postprocess" in hooks else request


def find_reader(candidate: Candidate, placement: Placement, name: str) -> tuple[Reader, set[str]]:
    """Return the reader of the request body, and the hooks of Servable's handler."""
    model = candidate.environment.models[name]
    folder = model.code.path if model.code else None
    if placement.model.image is not None or model.saved_model is None:
        return Reader.CODE, set()
    if model.handler == "servable" or (folder is not None and needs_our_handler(folder)):
        hooks = _find_hooks(folder / HOOKS) if folder else set()
        return (Reader.CODE if "preprocess" in hooks else Reader.SERVABLE), hooks
    return Reader.NGINX if folder is None else Reader.CODE, set()


def _find_hooks(file: Path) -> set[str]:
    """Return the hooks that the file defines, or both hooks if the file can't be read."""
    both = {"preprocess", "postprocess"}
    try:
        names = find_top_level_names(ast.parse(file.read_bytes()))
    except FileNotFoundError:
        return set()
    except (OSError, SyntaxError, ValueError, RecursionError):
        return both
    return both if "*" in names else both & names


class ReplayOutputUnknown(Rule, acknowledgeable=True):
    """A tolerance for an output that no model has is never applied, and the default one decides instead.

    Names are those of the SavedModels' signatures, and `output` for answers without names.
    """

    example = "replay.outputs.porb.relative = 0.001"

    def find_problems(self) -> Findings:
        # Names that a comparison gives to what has none: servable/answers/outputs.py.
        unnamed = re.compile(r"output|column [1-9][0-9]*")
        stated = [one for one in self.environment.replay.outputs if not unnamed.fullmatch(one)]
        outputs = self._list_outputs() if stated else None
        for name in stated:
            key = f"replay.outputs.{name}"
            if outputs is None:
                needs = "a saved_model without code, whose outputs are known"
                yield self.build_unchecked(key, needs, f"whether a model has the output {name!r}")
            elif name not in outputs:
                yield self.build_finding(
                    key,
                    f"no model of the file has an output {name!r}",
                    given=name,
                    allowed=", ".join(sorted(outputs)),
                    remedy=suggest_name(name, outputs),
                    reads=tuple(f"models.{model}" for model in self.environment.models),
                )

    def _list_outputs(self) -> set[str] | None:
        """Return the outputs of every version of every model, or None if one isn't known."""
        names: set[str] = set()
        try:
            for name, model in self.environment.models.items():
                folders = self.candidate.find_version_folders(name)
                if model.code is not None or (not folders and model.multi_model is None):
                    return None
                for info in map(self.candidate.read_saved_model, folders):
                    names.update(*(signature.outputs for signature in info.signatures.values()))
        except (PackagingError, OSError):
            return None
        return names
