"""One prediction of an environment's endpoint, in AWS, in the local AWS or in a container."""

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
from servable_local.aws import LocalAws, status

CONTENT_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/jsonlines",
    ".csv": "text/csv",
    ".pb": "application/x-protobuf",
}
ARRAY_FILES = (".npy", ".npz")


@dataclass(frozen=True)
class InvokeTarget:
    """Where the request is sent. `url`: a container; `aws`: the local AWS; neither: AWS."""

    url: str | None = None
    aws: LocalAws | None = None


def embedded() -> InvokeTarget:
    """Return the running local AWS. Raises `PackagingError` if it is not running."""
    aws = status(folder=state_folder())
    if aws is None:
        problem = "the local AWS is not running"
        raise PackagingError(Path("--local"), problem, "`servable local up`, then deploy to it")
    return InvokeTarget(aws=aws)


def connected(environment: Environment, target: InvokeTarget, **options: Any) -> Endpoint:
    """Return a client of the endpoint; nothing is sent yet.

    Raises `servable_client.BadInputError` for invalid options.
    """
    if (largest := environment.acknowledged_request_bytes) is not None:
        options.setdefault("largest_body_bytes", largest)
    if target.url:
        return Endpoint.local(target.url, **options)
    name, region = environment.endpoint.name, environment.region
    if target.aws is None:
        return Endpoint(name, region=region, **options)
    credentials = target.aws.environment(account=environment.account, region=region)
    session = boto3.session.Session(
        aws_access_key_id=credentials["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=credentials["AWS_SECRET_ACCESS_KEY"],
        region_name=region,
    )
    return Endpoint(name, session=session, endpoint_url=target.aws.url, **options)


def arrays_in(file: Path) -> Any:
    """Read a .npy file (one unnamed array) or a .npz file (arrays by name).

    Raises `PackagingError` if the file holds neither.
    """
    try:
        content = np.load(file, allow_pickle=False)
        return content if isinstance(content, np.ndarray) else dict(content)
    except (OSError, ValueError, EOFError) as error:
        wanted = "write it with np.save or np.savez, numbers and strings only"
        raise PackagingError(file, f"cannot be read: {error}", wanted) from None


def as_json(outputs: Outputs) -> str:
    """Return the outputs as {"outputs": {…}}; bytes that are not UTF-8 become \\ufffd."""
    shown = {name: _shown(array.tolist()) for name, array in outputs.items()}
    return json.dumps({"outputs": shown})


def _shown(value: Any) -> Any:
    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value) if isinstance(value, complex) else value


def written(answer: Answer | Outputs, file: Path) -> int:
    """Write an answer as it came, or arrays as .npz, atomically. Returns the number of bytes.

    Raises `servable_client.BadInputError` for strings that a .npz would truncate.
    """
    content = answer.body if isinstance(answer, Answer) else encode("npz", answer, Selection())
    beside = file.with_name(f"{file.name}.part")
    beside.write_bytes(content)
    beside.replace(file)
    return len(content)
