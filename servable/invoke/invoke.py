"""One prediction of an environment's endpoint, wherever it runs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import numpy as np

from infra.parameters.environment import Environment
from model_packaging.refusal import PackagingError
from servable.project_folder import state_folder
from servable_client import Answer, Endpoint, Outputs
from servable_client.formats import encode
from servable_client.options import Selection
from servable_local.aws import EmbeddedAws, status

CONTENT_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".csv": "text/csv",
    ".pb": "application/x-protobuf",
}
ARRAY_FILES = (".npy", ".npz")


@dataclass(frozen=True)
class InvokeTarget:
    """Where the endpoint is asked. `url`: a container's; `aws`: the embedded one; else AWS."""

    url: str | None = None
    aws: EmbeddedAws | None = None


def embedded() -> InvokeTarget:
    """The embedded AWS that runs. Raises `PackagingError` where none does."""
    aws = status(folder=state_folder())
    if aws is None:
        problem = "the embedded AWS is not running"
        raise PackagingError(Path("--local"), problem, "`servable local up`, then deploy to it")
    return InvokeTarget(aws=aws)


def connected(environment: Environment, target: InvokeTarget, **options: Any) -> Endpoint:
    """Nothing is sent yet. Raises `servable_client.BadInputError` for options that cannot be."""
    if (largest := environment.acknowledged_request_bytes) is not None:
        options.setdefault("largest_body_bytes", largest)
    if target.url:
        return Endpoint.local(target.url, **options)
    name, region = environment.endpoint.name, environment.region
    if target.aws is None:
        return Endpoint(name, region=region, **options)
    told = target.aws.environment(account=environment.account, region=region)
    session = boto3.session.Session(
        aws_access_key_id=told["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=told["AWS_SECRET_ACCESS_KEY"],
        region_name=region,
    )
    return Endpoint(name, session=session, endpoint_url=target.aws.url, **options)


def arrays_in(file: Path) -> Any:
    """An array without a name, or arrays by name. Raises `PackagingError` for what holds neither."""
    try:
        found = np.load(file, allow_pickle=False)
        return found if isinstance(found, np.ndarray) else dict(found)
    except (OSError, ValueError, EOFError) as error:
        wanted = "write it with np.save or np.savez, numbers and strings only"
        raise PackagingError(file, f"cannot be read: {error}", wanted) from None


def as_json(outputs: Outputs) -> str:
    """{"outputs": {…}}; bytes that are no UTF-8 show as \\ufffd."""
    shown = {name: _shown(array.tolist()) for name, array in outputs.items()}
    return json.dumps({"outputs": shown})


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return [_shown(one) for one in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value) if isinstance(value, complex) else value


def written(answer: Answer | Outputs, file: Path) -> int:
    """Bytes written: an answer as it came, arrays as .npz. Beside, and renamed.

    Raises `servable_client.BadInputError` for strings that a .npz would cut.
    """
    content = answer.body if isinstance(answer, Answer) else encode("npz", answer, Selection())
    beside = file.with_name(f"{file.name}.part")
    beside.write_bytes(content)
    beside.replace(file)
    return len(content)
