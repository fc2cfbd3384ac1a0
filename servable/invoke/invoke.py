"""One prediction of an environment's endpoint: its client, its inputs, and its outputs."""

import base64
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import boto3
import click
import numpy as np

from infra.packing import servable
from infra.parameters.environment import Environment
from infra.parameters.finding import meant
from model_packaging.beside import write_beside
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE, SignatureInfo, TensorInfo, read
from servable.project.account import account_of
from servable_client import Answer, Endpoint, Outputs
from servable_client.formats import encode
from servable_client.options import Selection
from servable_tensors.tensors import InexactCastError, cast_exactly

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


_STRINGS = ("string", "bytes")


def signature_of(environment: Environment, model: str, name: str | None) -> SignatureInfo | None:
    """Return a signature of a model's newest version; None if the file states an archive in S3.

    Raises click.UsageError for an unknown name, `PackagingError` if the model can't be read.
    """
    stated = environment.models[model]
    if stated.saved_model is None:
        return None
    versions = servable(model, stated).versions()
    signatures = read(versions[max(versions)]).signatures
    if (chosen := name or DEFAULT_SIGNATURE) not in signatures:
        raise click.UsageError(
            f"models.{model} has no signature {chosen}; give --signature with one of: {', '.join(signatures)}"
        )
    return signatures[chosen]


def body_of(pairs: Sequence[str], signature: SignatureInfo | None, name: str | None) -> bytes:
    """Return the request {"inputs": {…}}. `name`: of the signature, if it isn't the default one.

    Raises click.UsageError for what the signature doesn't take, `PackagingError` for unreadable files.
    """
    given = dict(_split(pair) for pair in pairs)
    if signature is not None:
        for unknown in given.keys() - signature.inputs.keys():
            raise click.UsageError(
                f"-i {unknown}: the signature has no such input; {meant(unknown, signature.inputs)}"
            )
        # A JSON request can't leave out inputs that have defaults.
        if missing := signature.inputs.keys() - given.keys():
            raise click.UsageError(
                f"the signature also takes: give -i {' -i '.join(f'{one}=…' for one in sorted(missing))}"
            )
    specs = {} if signature is None else signature.inputs
    inputs = {key: _value(key, text, specs.get(key)) for key, text in given.items()}
    body: Mapping[str, Any] = {"inputs": inputs}
    return json.dumps(body if name is None else {"signature_name": name, **body}).encode()


def _split(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not (name and equals):
        raise click.UsageError(f"-i {pair}: write NAME=VALUE, or NAME=@FILE")
    return name, value


def _value(name: str, text: str, spec: TensorInfo | None) -> Any:
    """Return one input as JSON has it."""
    strings = spec is not None and spec.dtype in _STRINGS
    if text.startswith("@"):
        value = _file(Path(text[1:]))
    else:
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if strings and not isinstance(value, str | list):
            value = text  # 007 and true are text where text is taken
    if spec is None:
        return value.tolist() if isinstance(value, np.ndarray) else value
    array = _array(name, value, spec)
    return _nested(array.tolist()) if strings else array.tolist()


def _file(file: Path) -> Any:
    """Return the array of an .npy file, the value of a .json file, or the bytes of any other file."""
    try:
        if file.suffix == ".npy":
            return np.load(file, allow_pickle=False)
        return json.loads(file.read_text()) if file.suffix == ".json" else file.read_bytes()
    except (OSError, ValueError, EOFError) as error:
        raise PackagingError(
            file, f"cannot be read: {error}", "give .npy, JSON, or bytes"
        ) from None


def _array(name: str, value: Any, spec: TensorInfo) -> np.ndarray[Any, Any]:
    """Return the value with the signature's type, and with a batch dimension if only that is missing."""
    try:
        if spec.dtype in _STRINGS:
            found = np.array(value, dtype=object)
        else:
            found = cast_exactly(np.array(value), np.dtype(spec.dtype))
    except (InexactCastError, TypeError, ValueError) as error:
        raise click.UsageError(f"-i {name}: {error}; the input is {_described(spec)}") from None
    if spec.shape is None:
        return found
    if found.ndim == len(spec.shape) - 1:
        found = found[np.newaxis]
    fits = found.ndim == len(spec.shape) and all(
        size in (None, given) for size, given in zip(spec.shape, found.shape, strict=True)
    )
    if not fits:
        raise click.UsageError(
            f"-i {name}: has the shape {list(found.shape)}; the input is {_described(spec)}"
        )
    return found


def _described(spec: TensorInfo) -> str:
    shape = (
        "any shape" if spec.shape is None else ["any" if one is None else one for one in spec.shape]
    )
    return f"{spec.dtype} of {shape}".replace("'", "")


def _nested(value: Any) -> Any:
    """Return strings as JSON has them: bytes that aren't UTF-8 as {"b64": …}."""
    if isinstance(value, list):
        return [_nested(each) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    return value
