"""Send golden requests, and compare the endpoint's responses with the known responses.

An asynchronous endpoint is called through its bucket, and its response is awaited for at most two
minutes.
"""

import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from typing import Any, get_args

from botocore.exceptions import ClientError

from infra.parameters.environment import Environment
from infra.parameters.model import Golden
from servable.answers.differences import find_content_type, find_differences, read_known_response
from servable.project.account import Account, fetch_or_none, split_uri
from servable.verify.difference import Answers, Difference, Report

KIND = "golden answer"
_KNOWN: tuple[Answers, ...] = get_args(Answers)
NO_ANSWER = "an answer"
"""The expected value if no response came."""
# A running instance responds within this time; starting one takes minutes more.
WAIT_SECONDS = 120.0
POLL_SECONDS = 0.2
# The prefix that callers use, next to the responses: infra/constructs/storage/retained_store.py.
REQUESTS = "requests"


class NotAnsweredError(Exception):
    """The error if an asynchronous request got no response. `str()` is the reason."""


class NoInstanceError(Exception):
    """The error if an endpoint has no instance: a request would wait for one to start."""


def compare_responses(
    account: Account, environment: Environment, report: Report
) -> Iterator[Difference | str]:
    """Send each model's golden requests once to each variant or component that serves it.

    Also yields notes. `report.answers` gets how far the responses were compared.
    """
    done: dict[str, Answers] = {}
    for variant, settings in environment.serving_variants.items():
        if settings.shadow:
            continue  # it can't be invoked by name, and SageMaker discards its responses
        done[variant] = "not asked"
        model, component = environment.models[settings.model], environment.components.get(variant)
        to = {"InferenceComponentName": component} if component else {"TargetVariant": variant}
        requests = [
            (to | ({"TargetModel": f"{name}.tar.gz"} if model.multi_model else {}), golden)
            for name in model.multi_model or [settings.model]
            if name in environment.models
            for golden in environment.models[name].golden_requests.values()
        ]
        for target, golden in requests:
            answer = yield from _compare_response(account, environment, target, golden, report)
            done[variant] = max(done[variant], answer, key=_KNOWN.index)
        if not requests:
            yield f"{variant}: no golden request was sent, because the model has none; set models.NAME.golden"
    report.answers = min(done.values(), key=_KNOWN.index)


def _compare_response(
    account: Account,
    environment: Environment,
    target: Mapping[str, str],
    golden: Golden,
    report: Report,
) -> Generator[Difference | str, None, Answers]:
    """Compare one response, and return how far it was compared."""
    endpoint, path = environment.endpoint.name, golden.request
    resource = f"{endpoint}/{[*target.values()][-1]}"
    try:
        body = path.path.read_bytes()
    except OSError as wrong:
        remedy = f"{wrong.filename}: write it, or remove the key"
        yield Difference(KIND, resource, remedy, str(path), "a file", wrong.strerror)
        return "not asked"
    wanted = read_known_response(golden)
    invoke = _invoke_async if environment.kind.queued else _invoke
    try:
        actual = invoke(account, endpoint, body, golden.request_content_type, target)
    except NoInstanceError:
        yield (
            f"{resource}: no golden request was sent, since no instance or copy runs and it would wait for "
            "one to start"
        )
        return "not asked"
    except (ClientError, NotAnsweredError) as error:
        remedy = "check the endpoint's log group"
        yield Difference(KIND, resource, remedy, str(path), NO_ANSWER, str(error))
        return "not compared"
    if wanted is None:
        write = (
            f"servable invoke {report.environment} --body {path} --output {golden.answer or 'FILE'}"
        )
        yield f"{resource}: {path} was answered, but there is no answer to compare: `{write}`"
        return "not compared"
    unequal = find_differences(wanted, actual, golden.tolerance, find_content_type(golden))
    if (first := next(unequal, None)) is not None:
        key, *sides = first
        remedy = "the model, its code, or its image changed; if this is intended, record the new response"
        yield Difference(KIND, resource, remedy, f"{path}{f': {key}' if key else ''}", *sides)
    return "compared"


def _invoke(
    account: Account, endpoint: str, body: bytes, content_type: str, target: Mapping[str, str]
) -> bytes:
    """Return the response body. Raises `NoInstanceError`, and botocore's errors."""
    if (component := target.get("InferenceComponentName")) is not None:
        describe = account.client("sagemaker").describe_inference_component
        live = describe(InferenceComponentName=component)
        if live["RuntimeConfig"]["CurrentCopyCount"] == 0:
            raise NoInstanceError
    answer = account.client("sagemaker-runtime").invoke_endpoint(
        EndpointName=endpoint, Body=body, ContentType=content_type, **target
    )
    return bytes(answer["Body"].read())


def _invoke_async(
    account: Account, endpoint: str, body: bytes, content_type: str, _: Mapping[str, str]
) -> bytes:
    """Return the response body of an asynchronous request.

    The bucket's lifecycle rules delete the request and the response. Raises `NotAnsweredError`,
    `NoInstanceError`, and botocore's errors.
    """
    live = account.client("sagemaker").describe_endpoint(EndpointName=endpoint)
    if all(variant.get("CurrentInstanceCount") == 0 for variant in live["ProductionVariants"]):
        raise NoInstanceError
    output = live["AsyncInferenceConfig"]["OutputConfig"]
    bucket, key = split_uri(output["S3OutputPath"])[0], f"{REQUESTS}/verify-{uuid.uuid4().hex}"
    s3 = account.client("s3")
    s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType=content_type)
    accepted = account.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName=endpoint, InputLocation=f"s3://{bucket}/{key}", ContentType=content_type
    )
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        if (answer := _read_object(s3, accepted["OutputLocation"])) is not None:
            return answer
        if (failure := _read_object(s3, accepted.get("FailureLocation"))) is not None:
            raise NotAnsweredError(failure.decode(errors="replace"))
        time.sleep(POLL_SECONDS)
    raise NotAnsweredError(
        f"no response within {WAIT_SECONDS:g} s; check the queue's age on the dashboard"
    )


def _read_object(s3: Any, location: str | None) -> bytes | None:
    """Return an object's content, or None if the object doesn't exist."""
    if location is None:
        return None
    bucket, key = split_uri(location)
    content = fetch_or_none(s3.get_object, Bucket=bucket, Key=key)
    return None if content is None else bytes(content["Body"].read())
