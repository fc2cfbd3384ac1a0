"""Golden requests: requests whose known answers are compared with those of the deployed endpoint.

An asynchronous endpoint is called through its bucket, and waited for at most two minutes.
"""

import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from typing import Any, get_args

from botocore.exceptions import ClientError

from infra.parameters.environment import Environment
from infra.parameters.model import Golden
from servable.answers.differences import content_type_of, differing, known_answer
from servable.project.account import Account, unless_absent
from servable.verify.difference import Answers, Difference, Report

KIND = "golden answer"
_KNOWN: tuple[Answers, ...] = get_args(Answers)
NO_ANSWER = "an answer"  # is wanted, and none came
# An instance that runs answers within it; one that must first be started needs minutes more.
WAIT_SECONDS = 120.0
POLL_SECONDS = 0.2
# Beside the answers, where callers put theirs: infra/constructs/storage/retained_store.py.
REQUESTS = "requests"


class NotAnsweredError(Exception):
    """An asynchronous request was not answered. `str()` is the reason."""


class NoInstanceError(Exception):
    """The endpoint is scaled to no instance, so a request would wait until one has been started."""


def compare(account: Account, environment: Environment, report: Report) -> Iterator[Difference]:
    """Send the golden requests of each model once to each variant or component that serves it.

    `report` says how far.
    """
    done: dict[str, Answers] = {}
    for variant, settings in environment.served.items():
        if settings.shadow:
            continue  # nobody may ask it by name, and its answers are thrown away
        done[variant], any_request = "not asked", False
        model = environment.models[settings.model]
        names = model.multi_model or [settings.model]
        for name in names:
            if name not in environment.models:
                continue
            component = environment.components.get(variant)
            target = {"InferenceComponentName": component} if component else {}
            target = target or {"TargetVariant": variant}
            if model.multi_model:
                target["TargetModel"] = f"{name}.tar.gz"
            for golden in environment.models[name].golden_requests.values():
                any_request = True
                answer = yield from _ask(account, environment, target, golden, report)
                done[variant] = max(done[variant], answer, key=_KNOWN.index)
        if not any_request:
            report.notes.append(
                f"{variant}: no golden request was sent: its model has none; set models.NAME.golden"
            )
    report.answers = min(done.values(), key=_KNOWN.index)


def _ask(
    account: Account,
    environment: Environment,
    target: Mapping[str, str],
    golden: Golden,
    report: Report,
) -> Generator[Difference, None, Answers]:
    endpoint = environment.endpoint.name
    resource = f"{endpoint}/{[*target.values()][-1]}"

    def differs(actual: object, wanted: object, remedy: str, key: str = "") -> Difference:
        where = f"{golden.request}{f': {key}' if key else ''}"
        return Difference(
            kind=KIND, resource=resource, key=where, wanted=wanted, found=actual, remedy=remedy
        )

    try:
        body = golden.request.path.read_bytes()
    except OSError as wrong:
        yield differs(wrong.strerror, "a file", f"{wrong.filename}: write it, or take the key out")
        return "not asked"
    wanted = known_answer(golden)
    try:
        if environment.kind.queued:
            actual = _ask_async(account, endpoint, body, golden.sent_as)
        else:
            _refuse_asleep(account, target.get("InferenceComponentName"))
            answer = account.client("sagemaker-runtime").invoke_endpoint(
                EndpointName=endpoint, Body=body, ContentType=golden.sent_as, **target
            )
            actual = answer["Body"].read()
    except NoInstanceError:
        report.notes.append(
            f"{resource}: no golden request was sent, since no instance or copy runs and it would wait for "
            "one to start"
        )
        return "not asked"
    except (ClientError, NotAnsweredError) as error:
        yield differs(str(error), NO_ANSWER, "look at the endpoint's log group")
        return "not compared"
    if wanted is None:
        file = golden.answer or "FILE"
        write = f"servable invoke {report.environment} --body {golden.request} --output {file}"
        report.notes.append(
            f"{resource}: {golden.request} was answered, and compared with nothing: `{write}`"
        )
        return "not compared"
    for key, expected, present in differing(
        wanted, actual, golden.tolerance, content_type_of(golden)
    ):
        remedy = "the model, its code or its image is another; or write the new answer"
        yield differs(present, expected, remedy, key)
        break  # one place says it
    return "compared"


def _refuse_asleep(account: Account, component: str | None) -> None:
    """Raises `NoInstanceError` while a component has no copy."""
    if component is not None:
        sagemaker = account.client("sagemaker")
        live = sagemaker.describe_inference_component(InferenceComponentName=component)
        if live["RuntimeConfig"]["CurrentCopyCount"] == 0:
            raise NoInstanceError


def _ask_async(account: Account, endpoint: str, body: bytes, content_type: str) -> bytes:
    """Return the answer's body. The bucket's lifecycle deletes request and answer.

    Raises `NotAnsweredError`, `NoInstanceError`, and what botocore raises.
    """
    live = account.client("sagemaker").describe_endpoint(EndpointName=endpoint)
    if all(variant.get("CurrentInstanceCount") == 0 for variant in live["ProductionVariants"]):
        raise NoInstanceError
    output = live["AsyncInferenceConfig"]["OutputConfig"]
    bucket, key = output["S3OutputPath"].split("/")[2], f"{REQUESTS}/verify-{uuid.uuid4().hex}"
    s3 = account.client("s3")
    s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType=content_type)
    accepted = account.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName=endpoint, InputLocation=f"s3://{bucket}/{key}", ContentType=content_type
    )
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        if (answer := _object(s3, accepted["OutputLocation"])) is not None:
            return answer
        if (failure := _object(s3, accepted.get("FailureLocation"))) is not None:
            raise NotAnsweredError(failure.decode(errors="replace"))
        time.sleep(POLL_SECONDS)
    raise NotAnsweredError(
        f"nothing within {WAIT_SECONDS:g} s; look at the queue's age on the dashboard"
    )


def _object(s3: Any, location: str | None) -> bytes | None:
    """Return an object's content; None if it does not exist."""
    if location is None:
        return None
    bucket, _, key = location.removeprefix("s3://").partition("/")
    content = unless_absent(s3.get_object, Bucket=bucket, Key=key)
    return None if content is None else bytes(content["Body"].read())
