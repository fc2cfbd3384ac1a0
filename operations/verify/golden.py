"""The golden request: what is deployed answers as it was known to."""

import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from infra.parameters.environment import Environment
from infra.parameters.model import Golden
from operations.deployed_account import Account
from operations.verify import queued
from operations.verify.difference import Difference

# By the end of the file's name.
CONTENT_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".csv": "text/csv",
    ".pb": "application/x-protobuf",
    ".npy": "application/x-npy",
}
KIND = "golden answer"


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
    wanted = _answer(root, golden)
    content_type = CONTENT_TYPES.get(Path(golden.request).suffix, "application/octet-stream")
    try:
        if environment.asynchronous is not None:
            found = queued.ask(account, endpoint, body, content_type, queued.WAIT_SECONDS)
        else:
            answer = account.client("sagemaker-runtime").invoke_endpoint(
                EndpointName=endpoint, Body=body, ContentType=content_type, **target
            )
            found = answer["Body"].read()
    except queued.NobodyRuns:
        note("no golden request was sent: no instance runs, and it would wait for one to start")
        return
    except (ClientError, queued.NotAnswered) as error:
        yield differs(str(error), "an answer", "look at the endpoint's log group")
        return
    if wanted is None:
        write = f"servable invoke ENV --body {golden.request} --output {golden.answer or 'FILE'}"
        note(f"{resource}: {golden.request} was answered, and compared with nothing: `{write}`")
        return
    for key, one, other in _unequal(_read(wanted), _read(found), golden.tolerance):
        remedy = "the model, its code or its image is another; or write the new answer"
        yield differs(other, one, remedy, key)
        return  # one place says it


def _answer(root: Path, golden: Golden) -> bytes | None:
    """None while nobody has written it."""
    file = None if golden.answer is None else root / golden.answer
    return file.read_bytes() if file is not None and file.is_file() else None


def _read(body: bytes) -> Any:
    """Numbers out of JSON or .npy; anything else as it is."""
    if body.startswith(b"\x93NUMPY"):
        import numpy as np  # deploying does without it, and so does any other answer

        return np.load(io.BytesIO(body), allow_pickle=False).tolist()
    try:
        return json.loads(body)
    except ValueError:
        return body


def _unequal(wanted: Any, found: Any, tolerance: float, key: str = "") -> Iterator[tuple[Any, ...]]:
    """(where, wanted, found), every place. Booleans are no numbers here."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for name in {**wanted, **found}:
            where = f"{key}.{name}" if key else name
            yield from _unequal(wanted.get(name), found.get(name), tolerance, where)
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            yield key, f"{len(wanted)} values", f"{len(found)} values"
            return
        for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
            yield from _unequal(one, other, tolerance, f"{key}[{index}]")
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
