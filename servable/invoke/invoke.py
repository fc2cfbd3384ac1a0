"""One prediction of an environment's endpoint, in AWS, in the local AWS or in a container."""

import json
import sys
from pathlib import Path
from typing import Any

import boto3
import numpy as np

from infra.parameters.environment import Environment
from infra.parameters.finding import meant
from model_packaging.beside import write_beside
from model_packaging.refusal import PackagingError
from servable.project.account import account_of
from servable_client import Answer, Endpoint, Outputs
from servable_client.formats import encode
from servable_client.options import Selection

ARRAY_FILES = (".npy", ".npz")


def connected(
    environment: Environment,
    *,
    url: str | None,
    local: bool,
    variant: str | None = None,
    **options: Any,
) -> Endpoint:
    """Return a client of the endpoint; nothing is sent yet. `url`: a container instead of AWS.

    `variant`: a variant, or a component; default: one by weight, or the first component.

    Raises `PackagingError` for an unknown component and if the local AWS is not running,
    `servable_client.BadInputError` for invalid options.
    """
    if (largest := environment.acknowledged_request_bytes) is not None:
        options.setdefault("largest_body_bytes", largest)
    components = environment.components
    if not components:
        options["variant"] = variant
    if url:
        return Endpoint.local(url, **options)
    if components:
        options |= {
            "component": component_named(environment, variant),
            "wake_seconds": environment.endpoint.wake_seconds,
            "waiting": lambda seconds: print(
                f"{environment.endpoint.name} sleeps: woken, waiting up to {seconds:g} s",
                file=sys.stderr,
            ),
        }
    name, region = environment.endpoint.name, environment.region
    credentials = account_of(environment, local=True).variables() if local else None
    if credentials is None:
        return Endpoint(name, region=region, **options)
    session = boto3.session.Session(
        aws_access_key_id=credentials["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=credentials["AWS_SECRET_ACCESS_KEY"],
        region_name=region,
    )
    address = credentials["AWS_ENDPOINT_URL"]
    return Endpoint(name, session=session, endpoint_url=address, **options)


def component_named(environment: Environment, name: str | None) -> str:
    """Name in SageMaker of a component, the first by default. Raises `PackagingError` for an unknown one."""
    components = environment.components
    name = name or next(iter(components))
    if name not in components:
        problem = f"there is no component {name!r}; allowed: {', '.join(components)}"
        raise PackagingError(Path(environment.endpoint.name), problem, meant(name, components))
    return components[name]


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
    write_beside(file, content)
    return len(content)
