"""Requests that are known beforehand, held against what reads them: code, signature, batching."""

import ast
from collections.abc import Iterable
from pathlib import Path

from infra.catalog import images
from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.placement import Placement
from infra.preflight.candidate import Candidate
from infra.preflight.rule import Findings, Rule
from model_packaging.python_source import top_level_names
from model_packaging.refusal import PackagingError
from model_packaging.request_path import HOOKS, wants_ours
from model_packaging.requests.json_requests import RequestValueError
from model_packaging.requests.known_requests import (
    CSV,
    KnownRequest,
    Reader,
    check_answer,
    check_batch,
    read_request,
)

Asked = tuple[Placement, str]
"""What answers, and the model that is asked for."""


class KnownRequestRule(Rule):
    """A rule about a file with a request, or with the answer to one."""

    def there(self, file: str) -> Path | None:
        """None where there is no such file."""
        path = self.loaded.root / file
        try:
            return path if path.is_file() else None
        except OSError:
            return None

    def no_file(self, key: str, file: str) -> Finding:
        return self.finding(
            key,
            f"{file} is no file",
            allowed="a file with one request, from the project's folder",
            remedy="write one there, as `servable init` writes golden/NAME/request.json",
        )

    def judge(self, key: str, file: str, sent_as: str, asked: Iterable[Asked]) -> Findings:
        """What the container would refuse of the request in the file."""
        for placement, model in asked:
            try:
                if judged(self.candidate, placement, model, file, sent_as) is None:
                    yield self.not_checked(
                        key, "--run: code may change the request, so that only running it shows"
                    )
            except OSError:
                continue  # that it is no file is a finding already
            except RequestValueError as bad:
                yield self.finding(
                    key,
                    f"{file}: the request {bad}",
                    given=file,
                    remedy="correct it, or the table of the model or the variant",
                    reads=(placement.key("container"), f"models.{model}"),
                )


class GoldenRequest(KnownRequestRule):
    """A golden request that the model refuses is known by `servable verify`, after the deployment.

    It is read as the container would: JSON by rows and columns, JSON lines, CSV, .npy and protobuf
    against the signature and max_batch_size. Where code may change the request, only whether it is
    there, and JSON where its name says so.
    Source: https://www.tensorflow.org/tfx/serving/api_rest (2026-11-22); tensorflowServing.js of the
    image's public source, https://github.com/aws/deep-learning-containers (read 2026-11-22)
    """

    acknowledgeable = True
    example = 'models.ranker.golden.request = "golden/nowhere.json"'

    def check(self, environment: Environment) -> Findings:
        for name, model in environment.models.items():
            if (golden := model.golden) is not None:
                key, asked = f"models.{name}.golden.request", _asked(self.candidate, name)
                if self.there(golden.request) is None:
                    yield self.no_file(key, golden.request)
                yield from self.judge(key, golden.request, golden.sent_as, asked)


class GoldenAnswer(KnownRequestRule):
    """An answer of another form than the signature's outputs is one that no model will give.

    Its numbers are compared by `servable check --run` and `servable verify`.
    Source: https://www.tensorflow.org/tfx/serving/api_rest (2026-11-22)
    """

    acknowledgeable = True
    example = "# golden.answer with another number of rows than golden.request"

    def check(self, environment: Environment) -> Findings:
        for name, model in environment.models.items():
            golden, key = model.golden, f"models.{name}.golden.answer"
            if golden is None or golden.answer is None:
                continue
            file = self.there(golden.answer)
            if file is None:
                yield self.not_checked(
                    key, f"{golden.answer}, which `servable invoke --output` writes"
                )
                continue
            for placement, _ in _asked(self.candidate, name):
                try:
                    known = judged(self.candidate, placement, name, golden.request, golden.sent_as)
                except (OSError, RequestValueError):
                    continue  # GoldenRequest says so
                try:
                    if known is not None:
                        check_answer(file.read_bytes(), known)
                except RequestValueError as bad:
                    yield self.finding(
                        key,
                        f"{golden.answer}: the answer {bad}",
                        remedy="write what the model answers, with `servable invoke --output`",
                        reads=(f"models.{name}",),
                    )


def _asked(candidate: Candidate, model: str) -> list[Asked]:
    """The variants that a request for the model goes to, as `servable verify` sends it."""
    return [
        (one, model)
        for one in candidate.placements
        if model in (one.model.multi_model or [one.variant.model])
    ]


def judged(
    candidate: Candidate, placement: Placement, model: str, file: str, sent_as: str
) -> KnownRequest | None:
    """None where nothing can be said. Raises `RequestValueError` for what is refused, OSError."""
    reader, hooks = _reader(candidate, placement, model)
    old = not images.has("rewritten_code", placement.tensorflow)
    if old and sent_as == CSV and reader is Reader.NGINX:
        return None  # those images convert CSV in a way of their own
    try:
        # The newest version answers requests that name none.
        folders = candidate.version_folders(model)
        info = candidate.saved_model(folders[-1]) if folders else None
    except (PackagingError, OSError):
        info = None  # SavedModel says so
    known = read_request((candidate.loaded.root / file).read_bytes(), sent_as, info, reader)
    batching = placement.variant.container.batching
    if known is not None:
        check_batch(known.shapes, batching.max_batch_size if batching else None)
    return known._replace(answered_in=None) if known and "postprocess" in hooks else known


def _reader(candidate: Candidate, placement: Placement, name: str) -> tuple[Reader, set[str]]:
    """Who reads the body, and the hooks of Servable's handler."""
    model = candidate.environment.models[name]
    folder = candidate.loaded.root / model.code if model.code else None
    if placement.model.image is not None or model.saved_model is None:
        return Reader.CODE, set()
    if model.handler == "servable" or (folder is not None and wants_ours(folder)):
        hooks = _hooks(folder / HOOKS) if folder else set()
        return (Reader.CODE if "preprocess" in hooks else Reader.SERVABLE), hooks
    if folder is not None:
        return Reader.CODE, set()
    return Reader.NGINX, set()


def _hooks(file: Path) -> set[str]:
    """Both, where they cannot be told."""
    both = {"preprocess", "postprocess"}
    try:
        names = top_level_names(ast.parse(file.read_bytes()))
    except FileNotFoundError:
        return set()
    except (OSError, SyntaxError, ValueError, RecursionError):
        return both
    return both if "*" in names else both & names
