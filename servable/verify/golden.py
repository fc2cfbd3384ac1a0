"""The golden request: what is deployed answers as it was known to.

An asynchronous endpoint is asked through its bucket, and waited for as long as people wait.
"""

import io
import json
import math
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from infra.parameters.environment import Environment
from infra.parameters.model import Golden
from servable.aws_account import Account, unless_absent
from servable.verify.difference import Difference

KIND = "golden answer"
# An instance that runs answers within it; one that must first be started needs minutes more.
WAIT_SECONDS = 120.0
POLL_SECONDS = 0.2
# Beside the answers, where callers put theirs: infra/constructs/storage/retained_store.py.
REQUESTS = "requests"


class NotAnsweredError(Exception):
    """`str()` is the reason."""


class NoInstanceError(Exception):
    """Scaled to no instance: a request would wait until one has been started."""


def look(
    account: Account, environment: Environment, root: Path, note: Callable[[str], None]
) -> Iterator[Difference]:
    """Each variant is asked once for each of its models that has a golden request."""
    asked = False
    for variant, one in environment.variants.items():
        if one.shadow:
            continue  # nobody may ask it by name, and its answers are thrown away
        model = environment.models[one.model]
        names = model.multi_model or [one.model]
        for name in names:
            golden = environment.models[name].golden if name in environment.models else None
            if golden is None:
                continue
            asked = True
            target = {"TargetVariant": variant}
            if model.multi_model:
                target["TargetModel"] = f"{name}.tar.gz"
            yield from _ask(account, environment, target, golden, root, note)
    if not asked:
        note("no golden request was sent: no model has one; set models.NAME.golden")


def _ask(
    account: Account,
    environment: Environment,
    target: Mapping[str, str],
    golden: Golden,
    root: Path,
    note: Callable[[str], None],
) -> Iterator[Difference]:
    endpoint = environment.endpoint.name
    resource = f"{endpoint}/{target.get('TargetModel', target['TargetVariant'])}"

    def differs(found: object, wanted: object, remedy: str, key: str = "") -> Difference:
        where = f"{golden.request}{f': {key}' if key else ''}"
        return Difference(
            kind=KIND, resource=resource, key=where, wanted=wanted, found=found, remedy=remedy
        )

    try:
        body = (root / golden.request).read_bytes()
    except OSError as wrong:
        yield differs(wrong.strerror, "a file", f"{wrong.filename}: write it, or take the key out")
        return
    wanted = known_answer(root, golden)
    try:
        if environment.kind.queued:
            found = _ask_async(account, endpoint, body, golden.sent_as)
        else:
            answer = account.client("sagemaker-runtime").invoke_endpoint(
                EndpointName=endpoint, Body=body, ContentType=golden.sent_as, **target
            )
            found = answer["Body"].read()
    except NoInstanceError:
        note("no golden request was sent: no instance runs, and it would wait for one to start")
        return
    except (ClientError, NotAnsweredError) as error:
        yield differs(str(error), "an answer", "look at the endpoint's log group")
        return
    if wanted is None:
        write = f"servable invoke ENV --body {golden.request} --output {golden.answer or 'FILE'}"
        note(f"{resource}: {golden.request} was answered, and compared with nothing: `{write}`")
        return
    for key, one, other in differing(wanted, found, golden.tolerance):
        remedy = "the model, its code or its image is another; or write the new answer"
        yield differs(other, one, remedy, key)
        return  # one place says it


def known_answer(root: Path, golden: Golden) -> bytes | None:
    """None while nobody has written it."""
    file = None if golden.answer is None else root / golden.answer
    return file.read_bytes() if file is not None and file.is_file() else None


def _ask_async(account: Account, endpoint: str, body: bytes, content_type: str) -> bytes:
    """The answer's body. The request, and what comes of it, go with the bucket's lifecycle.

    Raises `NotAnsweredError`, `NoInstanceError`, and what botocore raises.
    """
    live = account.client("sagemaker").describe_endpoint(EndpointName=endpoint)
    if all(one.get("CurrentInstanceCount") == 0 for one in live["ProductionVariants"]):
        raise NoInstanceError
    output = live["AsyncInferenceConfig"]["OutputConfig"]
    bucket, key = output["S3OutputPath"].split("/")[2], f"{REQUESTS}/verify-{uuid.uuid4().hex}"
    s3 = account.client("s3")
    s3.put_object(Bucket=bucket, Key=key, Body=body, ContentType=content_type)
    asked = account.client("sagemaker-runtime").invoke_endpoint_async(
        EndpointName=endpoint, InputLocation=f"s3://{bucket}/{key}", ContentType=content_type
    )
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        if (answer := _object(s3, asked["OutputLocation"])) is not None:
            return answer
        if (failure := _object(s3, asked.get("FailureLocation"))) is not None:
            raise NotAnsweredError(failure.decode(errors="replace"))
        time.sleep(POLL_SECONDS)
    raise NotAnsweredError(
        f"nothing within {WAIT_SECONDS:g} s; look at the queue's age on the dashboard"
    )


def _object(s3: Any, location: str | None) -> bytes | None:
    """None while it is not there."""
    if location is None:
        return None
    bucket, _, key = location.removeprefix("s3://").partition("/")
    found = unless_absent(s3.get_object, Bucket=bucket, Key=key)
    return None if found is None else bytes(found["Body"].read())


def differing(
    wanted: bytes, found: bytes, tolerance: float
) -> Iterator[tuple[str, object, object]]:
    """(where, wanted, found), every place in which an answer's body is another."""
    yield from _differing(_values(wanted), _values(found), tolerance)


def _values(body: bytes) -> Any:
    """Numbers out of JSON or .npy; anything else as it is."""
    if body.startswith(b"\x93NUMPY"):
        import numpy as np  # deploying does without it, and so does any other answer

        return np.load(io.BytesIO(body), allow_pickle=False).tolist()
    try:
        return json.loads(body)
    except ValueError:
        return body


def _differing(
    wanted: Any, found: Any, tolerance: float, key: str = ""
) -> Iterator[tuple[Any, ...]]:
    """(where, wanted, found), every place. Booleans are no numbers here."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in {**wanted, **found}:
            where = f"{key}.{name}" if key else name
            yield from _differing(wanted.get(name), found.get(name), tolerance, where)
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            yield key, f"{len(wanted)} values", f"{len(found)} values"
            return
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _differing(one, other, tolerance, f"{key}[{index}]")
    elif not _close(wanted, found, tolerance):
        yield key, wanted, found


def _close(wanted: Any, found: Any, tolerance: float) -> bool:
    if _number(wanted) and _number(found):
        if math.isnan(wanted) or math.isnan(found):
            return math.isnan(wanted) and math.isnan(found)
        return math.isclose(wanted, found, rel_tol=tolerance, abs_tol=tolerance)
    return bool(type(wanted) is type(found) and wanted == found)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
