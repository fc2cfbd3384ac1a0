"""One prediction by an environment's endpoint: its client, its inputs, and its outputs."""

import base64
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import click
import numpy as np

from infra.packing import build_servable
from infra.parameters.environment import Environment
from infra.parameters.finding import suggest_name
from model_packaging.beside import write_atomically
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE, SignatureInfo, TensorInfo, read
from servable.project.account import open_account
from servable_client import Answer, Endpoint, Outputs
from servable_client.formats import encode
from servable_client.options import Selection
from servable_tensors import format_shape, is_shape_allowed
from servable_tensors.tensors import InexactCastError, cast_exactly

ARRAY_FILES = (".npy", ".npz")


@dataclass(frozen=True, kw_only=True)
class InvokeOptions:
    """The parsed command-line options, each under its parameter's name."""

    body: Path | None
    inputs: tuple[str, ...]
    local: bool
    url: str | None
    content_type: str | None
    accept: str
    form: str | None
    split: int | None
    variant: str | None
    model: str | None
    version: int | None
    signature: str | None
    timeout_seconds: float | None
    retry_unsafe: bool
    output: Path | None
    as_object: bool


# The options that a client takes as they are.
_CLIENT_OPTIONS = ("model", "version", "signature", "timeout_seconds", "retry_unsafe")


def connect_endpoint(environment: Environment, options: InvokeOptions) -> Endpoint:
    """Return a client of the endpoint, or of the container at --url; no request is sent yet.

    Without --variant, SageMaker picks a variant by weight, and the first component is used.

    Raises `PackagingError` for an unknown component and if the local AWS is not running,
    `servable_client.BadInputError` for invalid options.
    """
    settings: dict[str, Any] = {name: getattr(options, name) for name in _CLIENT_OPTIONS}
    if (largest := environment.acknowledged_request_bytes) is not None:
        settings["largest_body_bytes"] = largest
    if not environment.components:
        settings["variant"] = options.variant
    if options.url:
        return Endpoint.local(options.url, **settings)
    if environment.components:
        settings |= {
            "component": find_component(environment, options.variant),
            "wake_seconds": environment.endpoint.wake_seconds,
            "waiting": lambda seconds: print(
                f"{environment.endpoint.name} has scaled to zero; waking it, up to {seconds:g} s",
                file=sys.stderr,
            ),
        }
    name, region = environment.endpoint.name, environment.region
    if not options.local:
        return Endpoint(name, region=region, **settings)
    credentials = open_account(environment, local=True).build_process_variables()
    assert credentials is not None  # the local AWS has its own
    session = boto3.session.Session(
        aws_access_key_id=credentials["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=credentials["AWS_SECRET_ACCESS_KEY"],
        region_name=region,
    )
    address = credentials["AWS_ENDPOINT_URL"]
    return Endpoint(name, session=session, endpoint_url=address, **settings)


def find_component(environment: Environment, name: str | None) -> str:
    """Return a component's name in SageMaker; the default is the first component.

    Raises `PackagingError` for an unknown one.
    """
    components = environment.components
    name = name or next(iter(components))
    if name not in components:
        problem = f"there is no component {name!r}; allowed: {', '.join(components)}"
        remedy = suggest_name(name, components)
        raise PackagingError(Path(environment.endpoint.name), problem, remedy)
    return components[name]


def read_arrays(file: Path) -> Any:
    """Read a .npy file (one unnamed array) or a .npz file (arrays by name).

    Raises `PackagingError` if the file contains neither.
    """
    try:
        content = np.load(file, allow_pickle=False)
        return content if isinstance(content, np.ndarray) else dict(content)
    except (OSError, ValueError, EOFError) as error:
        wanted = "write it with np.save or np.savez, numbers and strings only"
        raise PackagingError(file, f"cannot be read: {error}", wanted) from None


def format_outputs(outputs: Outputs) -> str:
    """Return the outputs as {"outputs": {…}} in JSON. Bytes that aren't UTF-8 become U+FFFD."""
    shown = {name: _convert_to_json(array.tolist(), "replace") for name, array in outputs.items()}
    return json.dumps({"outputs": shown})


def _convert_to_json(value: Any, errors: str) -> Any:
    """Return JSON-compatible data; if `errors` is "strict", non-UTF-8 bytes become {"b64": …}."""
    if isinstance(value, list):
        return [_convert_to_json(item, errors) for item in value]
    if isinstance(value, bytes):
        try:
            return value.decode(errors=errors)
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    return str(value) if isinstance(value, complex) else value


def write_response(answer: Answer | Outputs, file: Path) -> int:
    """Write a response body unchanged, or arrays as .npz, atomically; return the number of bytes.

    Raises `servable_client.BadInputError` for strings that a .npz would truncate.
    """
    content = answer.body if isinstance(answer, Answer) else encode("npz", answer, Selection())
    write_atomically(file, content)
    return len(content)


_STRINGS = ("string", "bytes")


def read_signature(environment: Environment, model: str, name: str | None) -> SignatureInfo | None:
    """Return a signature of a model's newest version, or None if the model is an archive in S3.

    Raises click.UsageError for an unknown name, `PackagingError` if the model can't be read.
    """
    stated = environment.models[model]
    if stated.saved_model is None:
        return None
    versions = build_servable(model, stated).find_versions()
    signatures = read(versions[max(versions)]).signatures
    if (chosen := name or DEFAULT_SIGNATURE) not in signatures:
        raise click.UsageError(
            f"models.{model} has no signature {chosen}; pass --signature with one of: {', '.join(signatures)}"
        )
    return signatures[chosen]


def build_body(pairs: Sequence[str], signature: SignatureInfo | None, name: str | None) -> bytes:
    """Return the request body {"inputs": {…}}.

    `name`: the name of the signature, if it isn't the default one. Raises click.UsageError for
    inputs that the signature doesn't take, `PackagingError` for unreadable files.
    """
    given = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise click.UsageError(f"-i {pair}: write NAME=VALUE, or NAME=@FILE")
        given[key] = value
    if signature is not None:
        for unknown in given.keys() - signature.inputs.keys():
            raise click.UsageError(
                f"-i {unknown}: the signature has no such input; {suggest_name(unknown, signature.inputs)}"
            )
        # A JSON request can't leave out inputs that have defaults.
        if missing := signature.inputs.keys() - given.keys():
            raise click.UsageError(
                f"required inputs are missing; pass -i {' -i '.join(f'{one}=…' for one in sorted(missing))}"
            )
    specs = {} if signature is None else signature.inputs
    inputs = {key: _parse_value(key, text, specs.get(key)) for key, text in given.items()}
    body: Mapping[str, Any] = {"inputs": inputs}
    return json.dumps(body if name is None else {"signature_name": name, **body}).encode()


def _parse_value(name: str, text: str, spec: TensorInfo | None) -> Any:
    """Return one input as JSON-compatible data."""
    strings = spec is not None and spec.dtype in _STRINGS
    if text.startswith("@"):
        value = _read_file(Path(text[1:]))
    else:
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if strings and not isinstance(value, str | list):
            value = text  # 007 and true are text for an input of strings
    if spec is None:
        return value.tolist() if isinstance(value, np.ndarray) else value
    return _convert_to_json(_convert_array(name, value, spec).tolist(), "strict")


def _read_file(file: Path) -> Any:
    """Return the array of an .npy file, the value of a .json file, or the bytes of any other file."""
    try:
        if file.suffix == ".npy":
            return np.load(file, allow_pickle=False)
        return json.loads(file.read_text()) if file.suffix == ".json" else file.read_bytes()
    except (OSError, ValueError, EOFError) as error:
        problem = f"cannot be read: {error}"
        raise PackagingError(
            file, problem, "pass a .npy file, a JSON file, or a file of bytes"
        ) from None


def _convert_array(name: str, value: Any, spec: TensorInfo) -> np.ndarray[Any, Any]:
    """Return the value with the signature's type.

    A batch dimension is added if only that is missing. Raises click.UsageError if the value
    doesn't fit.
    """
    shape = "any shape" if spec.shape is None else format_shape(spec.shape)
    expected = f"the input is {spec.dtype} of {shape}"
    try:
        if spec.dtype in _STRINGS:
            found = np.array(value, dtype=object)
        else:
            found = cast_exactly(np.array(value), np.dtype(spec.dtype))
    except (InexactCastError, TypeError, ValueError) as error:
        raise click.UsageError(f"-i {name}: {error}; {expected}") from None
    if spec.shape is not None and found.ndim == len(spec.shape) - 1:
        found = found[np.newaxis]
    if not is_shape_allowed(found.shape, spec.shape):
        raise click.UsageError(f"-i {name}: the shape {list(found.shape)} doesn't fit; {expected}")
    return found
