"""Send golden requests to the local container with an environment's settings.

This is `servable check --run`. The model servers replay the warm-up records as they load, through
batching, as TensorFlow Serving does. Then each golden request is sent through handler, hooks, and
batching: once alone, then several at once.
"""

import json
import re
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from infra.catalog.images import find_op_table
from infra.parameters.batch.job import list_batch_jobs
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import ValidFile
from infra.parameters.model import Golden
from infra.parameters.rollout import GoldenRequests
from model_packaging.refusal import PackagingError
from servable.answers.differences import find_content_type, find_differences, read_known_response
from servable.project.provided import LaunchError, build_batch_variables
from servable.serve.serve import PreparedVariant, prepare_batch, prepare_variant, serve_locally

# Enough for several requests in one batch, and in several workers.
AT_ONCE = 4
# InvokeEndpoint fails after this time: infra/catalog/documented_limits.json (answer_seconds).
ANSWER_SECONDS = 60.0
# Rules that could not be checked without a run, and that the run replaces.
SHOWN_BY_RUN = frozenset({"golden-request", "rollout-golden-request"})


@dataclass(frozen=True, kw_only=True)
class RunPart:
    """A variant or a batch: each has a container."""

    name: str
    model: str
    prepare: Callable[[], PreparedVariant]
    shows_log: str
    """Command that shows the container's log."""
    update: GoldenRequests | None = None
    """Request of an update, sent too."""
    added: Mapping[str, str] = field(default_factory=dict)
    """Variables that SageMaker adds for a job."""


class SentRequest(NamedTuple):
    """A golden request of an environment file: its key, content type, and path."""

    key: str
    golden: Golden
    sent_as: str
    path: str


def find_run_failures(loaded: ValidFile, report: Callable[[str], None]) -> Iterator[Finding]:
    """Run each variant and batch, the same deployment once; yield a finding for each failure."""
    environment = loaded.environment
    parts = list(_list_parts(loaded))
    seen: list[PreparedVariant] = []
    for number, part in enumerate(parts, start=1):
        key, model = f"models.{part.model}", environment.models[part.model]
        doing = f"{loaded.name}, {part.name} ({number} of {len(parts)})"
        report(f"{doing}: packing")
        try:
            served = part.prepare()
            served = replace(served, variables=served.variables | dict(part.added))
        except PackagingError as wrong:
            severity = Severity.NOT_CHECKED if model.artifact is not None else Severity.ERROR
            problem = f"wasn't run: {wrong.problem}"
            yield _build_finding(loaded, "run-load", key, problem, wrong.remedy, severity)
            continue
        if replace(served, variant="") in seen:
            continue
        seen.append(replace(served, variant=""))
        report(f"{doing}: loading in the local container")
        with tempfile.TemporaryDirectory(prefix="servable-run-") as folder:
            log = Path(folder) / "log"
            try:
                with serve_locally(served, port=0, log=log) as process:
                    requests = list(_list_requests(loaded, part))
                    for sent in requests:
                        report(f"{doing}: sending {sent.golden.request}")
                        yield from _send_golden_request(loaded, process.url, sent, log)
                    yield from _find_uncalled_models(loaded, part.model, requests)
            except LaunchError as wrong:
                yield _explain_start_failure(loaded, key, part, str(wrong), served.tensorflow)


def build_interrupted_finding(loaded: ValidFile) -> Finding:
    """Return the finding for an environment whose run was interrupted."""
    problem = "its run was interrupted before all checks finished"
    remedy = f"run `servable check {loaded.name} --run` again"
    return _build_finding(loaded, "run-load", "", problem, remedy, Severity.NOT_CHECKED)


def _list_parts(loaded: ValidFile) -> Iterator[RunPart]:
    rollout = loaded.environment.rollout
    for name, variant in loaded.environment.serving_variants.items():
        yield RunPart(
            name=f"variant {name}",
            model=variant.model,
            update=rollout.golden_requests if rollout and not variant.shadow else None,
            prepare=partial(prepare_variant, loaded, variant=name, download=False),
            shows_log=f"`servable serve {loaded.name} --variant {name}`",
        )
    for job in list_batch_jobs(loaded.environment):
        yield RunPart(
            name=f"batch {job.name}",
            model=job.batch.model,
            prepare=partial(prepare_batch, loaded, job, download=False),
            shows_log=f"`servable batch {loaded.name} {job.name} --local --input FILE --output DIR`",
            added=build_batch_variables(job.build_request(job_name="check", model_name="check")),
        )


def _explain_start_failure(
    loaded: ValidFile, key: str, part: RunPart, reason: str, tensorflow: str
) -> Finding:
    """Return the finding of a failed start: no error if only this TensorFlow lacks an operation."""
    said = _shorten_to_line(reason)
    lacking, table = re.search(r"Op type not registered '(\w+)'", reason), find_op_table(tensorflow)
    if lacking is not None and table is not None and lacking[1] in table:
        problem = f"wasn't run: {said}; the image of TensorFlow {tensorflow} has {lacking[1]}"
        remedy = f"install a TensorFlow with {lacking[1]}, or use the image (--docker)"
        return _build_finding(loaded, "run-load", key, problem, remedy, Severity.NOT_CHECKED)
    problem = f"the container of {part.name} didn't start: {said}"
    return _build_finding(loaded, "run-load", key, problem, f"{part.shows_log} shows its log")


def _list_requests(loaded: ValidFile, part: RunPart) -> Iterator[SentRequest]:
    """Yield the golden requests of the part's models whose files exist."""
    environment = loaded.environment
    members = environment.models[part.model].multi_model
    sent = []
    for name in members or [part.model]:
        path = f"/models/{name}/invoke" if members else "/invocations"
        for below, golden in environment.models[name].golden_requests.items():
            key, kind = f"models.{name}.{below}.request", golden.request_content_type
            sent.append(SentRequest(key, golden, kind, path))
    if part.update is not None and part.update.request_content_type and not members:
        golden = Golden.model_construct(request=part.update.body)
        key = "rollout.golden_requests.body"
        sent.append(SentRequest(key, golden, part.update.request_content_type, "/invocations"))
    yield from (request for request in sent if request.golden.request.path.is_file())


def _find_uncalled_models(
    loaded: ValidFile, served: str, requests: Sequence[SentRequest]
) -> Iterator[Finding]:
    """Yield a finding for each model of a container that no request was sent to."""
    environment = loaded.environment
    sent = {request.key for request in requests}
    for name in environment.models[served].multi_model or [served]:
        key, model = f"models.{name}", environment.models[name]
        if any(other.startswith((f"{key}.", "rollout.")) for other in sent):
            continue
        what = "model" if model.code is None and model.handler is None else "handler"
        problem = f"the {what} wasn't called: it has no golden request"
        line = f'{key}.golden.request = "golden/{name}/request.json"'
        remedy = f"add {line}, and write the request to that file"
        yield _build_finding(loaded, "run-request", key, problem, remedy, Severity.NOT_CHECKED)


def _send_golden_request(
    loaded: ValidFile, url: str, sent: SentRequest, log: Path
) -> Iterator[Finding]:
    """Send a request alone, then several at once; yield the first failure or difference."""
    golden = sent.golden
    body, known = golden.request.path.read_bytes(), read_known_response(golden)
    compare = partial(
        find_differences, tolerance=golden.tolerance, content_type=find_content_type(golden)
    )
    first, send = None, partial(post_body, f"{url}{sent.path}", body, sent.sent_as)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for times in (1, AT_ONCE):
            how = f"{golden.request}{f', {times} at once,' if times > 1 else ''} got"
            for status, answer in list(pool.map(lambda _: send(), range(times))):
                if status != 200:
                    problem = f"{how} {status or 'no response'}: {read_reason(answer)}"
                    problem += _read_last_line(log) if not 400 <= status < 500 else ""
                    remedy = "fix the request, the code, or the model"
                    yield _build_finding(loaded, "run-request", sent.key, problem, remedy)
                    return
                first = answer if first is None else first
                for where, wanted, actual in compare(known or first, answer):
                    problem = f"{how} {where or 'the response'} {actual!r:.100}"
                    problem += f", expected {wanted!r:.100}"
                    remedy = "fix the code or the model, or write the new response"
                    key = sent.key.replace(".request", ".answer")
                    if known is None or any(compare(first, answer)):
                        problem += "; responses to the same request differ"
                        remedy = "export the model without randomness (dropout, noise), "
                        remedy += "and process each row independently"
                    yield _build_finding(loaded, "run-answer", key, problem, remedy)
                    return


def post_body(url: str, body: bytes, content_type: str) -> tuple[int, bytes]:
    """Send a body and return (status, body), or (0, reason) if no response came."""
    headers = {"Content-Type": content_type}
    request = urllib.request.Request(url, body, headers, method="POST")
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=ANSWER_SECONDS) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()
    except OSError as error:  # a time-out, a connection that was closed
        return 0, str(error).encode()


def read_reason(body: bytes) -> str:
    """Return the sentence in {"error": …}, or otherwise the body, on one line."""
    try:
        return " ".join(json.loads(body)["error"].split())
    except (ValueError, KeyError, TypeError, AttributeError):
        return " ".join(body.decode(errors="replace").split())


def _read_last_line(log: Path) -> str:
    """Return user code's last log line; the handler's JSON lines repeat its responses."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    messages = [line for line in lines if line.strip() and not line.startswith('{"event"')]
    return f"; last log line: {_shorten_to_line(messages[-1])}" if messages else ""


def _build_finding(
    loaded: ValidFile,
    rule: str,
    key: str,
    problem: str,
    remedy: str,
    severity: Severity = Severity.ERROR,
) -> Finding:
    file = loaded.find_origin(key)
    return Finding(rule=rule, severity=severity, file=file, key=key, problem=problem, remedy=remedy)


def _shorten_to_line(text: str) -> str:
    """Return a text on one line, cut to 600 characters."""
    return " ".join(text.split())[:600]
