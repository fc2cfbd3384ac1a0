"""`servable openapi ENV`: describe the endpoint's JSON bodies as OpenAPI 3.1, for other languages."""

import json
from collections.abc import Iterator
from typing import Any

import click

from infra.packing import build_servable
from infra.parameters.environment import Environment
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE, SignatureInfo, TensorInfo, read
from servable import __version__
from servable.project.completion import ENVIRONMENT
from servable.project.environments import Project, pass_project

Schema = dict[str, Any]
_STRINGS = ("string", "bytes")
_B64: Schema = {"type": "string", "contentEncoding": "base64"}


@click.command()
@ENVIRONMENT
@pass_project
def openapi(project: Project, environment: str) -> int:
    """Print an OpenAPI 3.1 description of the JSON that ENV's endpoint takes and returns.

    Names, types, and shapes are the signature's, and the example is the golden request. A generator of
    clients reads it: `servable serve ENV` answers at its first server, SageMaker at its second.
    """
    loaded = project.load_endpoint(environment)
    try:
        document = build_document(loaded.environment, loaded.name)
    except PackagingError as error:
        raise click.ClickException(f"servable openapi: {error}") from None
    click.echo(json.dumps(document, indent=2))
    return 0


def build_document(environment: Environment, name: str) -> Schema:
    """Describe the first variant's model. Raises `PackagingError`, click.ClickException."""
    model = next(iter(environment.serving_variants.values())).model
    stated = environment.models[model]
    if stated.saved_model is None:
        raise click.ClickException(
            f"models.{model} is an archive in S3, so its signature is unknown here; set "
            f"models.{model}.saved_model to the folder that it was packed from, and remove artifact"
        )
    versions = build_servable(model, stated).find_versions()
    version = max(versions)
    signatures = read(versions[version]).signatures
    chosen = DEFAULT_SIGNATURE if DEFAULT_SIGNATURE in signatures else next(iter(signatures))
    example = _read_golden_request(environment, model)
    rows = "instances" in (example or {})
    request = _build_request_schema(chosen, signatures[chosen], rows=rows)
    code = "Code in the archive may accept and return other bodies. " if stated.code else ""
    about = f"{code}Written by servable {__version__}, signature {chosen}."
    title = environment.endpoint.name
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": str(version), "description": about},
        "servers": list(_list_servers(environment, name)),
        "paths": {"/invocations": {"post": _build_operation(example)}},
        "components": {
            "schemas": {
                "PredictRequest": request,
                "PredictResponse": _build_response_schema(signatures[chosen], rows=rows),
                "PredictError": {"type": "object", "properties": {"error": {"type": "string"}}},
            }
        },
    }


def _list_servers(environment: Environment, name: str) -> Iterator[Schema]:
    yield {"url": "http://127.0.0.1:8080", "description": f"servable serve {name} --port 8080"}
    suffix = "amazonaws.com.cn" if environment.region.startswith("cn-") else "amazonaws.com"
    host = f"https://runtime.sagemaker.{environment.region}.{suffix}"
    signed = "SageMaker; requests are signed with AWS Signature Version 4"
    yield {"url": f"{host}/endpoints/{environment.endpoint.name}", "description": signed}


def _build_operation(example: Schema | None) -> Schema:
    def build_content(schema: str, **more: Any) -> Schema:
        reference = {"$ref": f"#/components/schemas/{schema}"}
        return {"content": {"application/json": {"schema": reference, **more}}}

    shown = {} if example is None else {"example": example}
    failed = {"description": "The request was rejected, or the model failed"}
    return {
        "operationId": "predict",
        "requestBody": {"required": True, **build_content("PredictRequest", **shown)},
        "responses": {
            "200": {"description": "The model's outputs", **build_content("PredictResponse")},
            "default": failed | build_content("PredictError"),
        },
    }


def _read_golden_request(environment: Environment, model: str) -> Schema | None:
    """Return a golden request that is JSON with named fields, or None if there is none."""
    for golden in environment.models[model].golden_requests.values():
        if golden.request_content_type == "application/json" and golden.request.path.is_file():
            try:
                body = json.loads(golden.request.path.read_text(encoding="utf-8"))
            except ValueError:
                continue
            if isinstance(body, dict) and ({"instances", "inputs"} & body.keys()):
                return body
    return None


def _build_request_schema(name: str, signature: SignatureInfo, *, rows: bool) -> Schema:
    specs = signature.inputs.items()
    given = {key: _build_tensor_schema(key, spec, row=rows) for key, spec in specs}
    named = {"type": "object", "required": sorted(given), "properties": given}
    form, schema = ("instances", {"type": "array", "items": named}) if rows else ("inputs", named)
    properties = {form: schema}
    if name != DEFAULT_SIGNATURE:
        properties["signature_name"] = {"type": "string", "const": name}
    return {"type": "object", "required": sorted(properties), "properties": properties}


def _build_response_schema(signature: SignatureInfo, *, rows: bool) -> Schema:
    """Return the schema of the response.

    TensorFlow Serving leaves out the name of a single output. Source:
    https://www.tensorflow.org/tfx/serving/api_rest#response_format_4 (2026-11-29)
    """
    specs = signature.outputs.items()
    outputs = {key: _build_tensor_schema(key, spec, row=rows) for key, spec in specs}
    schema: Schema = {"type": "object", "required": sorted(outputs), "properties": outputs}
    if len(outputs) == 1:
        (schema,) = outputs.values()
    form = "predictions" if rows else "outputs"
    schema = {"type": "array", "items": schema} if rows else schema
    return {"type": "object", "required": [form], "properties": {form: schema}}


def _build_tensor_schema(key: str, spec: TensorInfo, *, row: bool) -> Schema:
    """Return a tensor's schema as nested arrays; of a `row`, without the first dimension."""
    if spec.shape is None:
        return {"description": f"{spec.dtype} of any shape"}
    schema = _build_element_schema(key, spec.dtype)
    for size in reversed(spec.shape[1:] if row else spec.shape):
        schema = {"type": "array", "items": schema}
        if size is not None:
            schema |= {"minItems": size, "maxItems": size}
    return schema | {"description": f"{spec.dtype}, {key}"}


def _build_element_schema(key: str, dtype: str) -> Schema:
    if dtype in _STRINGS:
        # TensorFlow Serving decodes {"b64": …} everywhere, and requires it if a name ends in _bytes.
        encoded = {"type": "object", "required": ["b64"], "properties": {"b64": _B64}}
        return encoded if key.endswith("_bytes") else {"type": "string"}
    if dtype == "bool":
        return {"type": "boolean"}
    return {"type": "integer" if "int" in dtype else "number"}
