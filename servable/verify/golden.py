"""The golden request: what is deployed answers as it was known to."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from botocore.exceptions import ClientError

from infra.parameters.environment import Environment
from infra.parameters.model import Golden
from servable.aws_account import Account
from servable.verify import queued
from servable.verify.answer import read, unequal
from servable.verify.difference import Difference

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
        if environment.kind.queued:
            found = queued.ask(account, endpoint, body, content_type, queued.WAIT_SECONDS)
        else:
            answer = account.client("sagemaker-runtime").invoke_endpoint(
                EndpointName=endpoint, Body=body, ContentType=content_type, **target
            )
            found = answer["Body"].read()
    except queued.NoInstanceError:
        note("no golden request was sent: no instance runs, and it would wait for one to start")
        return
    except (ClientError, queued.NotAnsweredError) as error:
        yield differs(str(error), "an answer", "look at the endpoint's log group")
        return
    if wanted is None:
        write = f"servable invoke ENV --body {golden.request} --output {golden.answer or 'FILE'}"
        note(f"{resource}: {golden.request} was answered, and compared with nothing: `{write}`")
        return
    for key, one, other in unequal(read(wanted), read(found), golden.tolerance):
        remedy = "the model, its code or its image is another; or write the new answer"
        yield differs(other, one, remedy, key)
        return  # one place says it


def _answer(root: Path, golden: Golden) -> bytes | None:
    """None while nobody has written it."""
    file = None if golden.answer is None else root / golden.answer
    return file.read_bytes() if file is not None and file.is_file() else None
