"""Lambda: requests are checked, and a function is described as AWS describes it.

Upstream (moto 5.2.5): names, qualifiers and runtimes are taken as they come, what does not fit a path is no
operation, a new function is Active at once and has no revision, and errors lack their type.
Codes, sentences and members were recorded from AWS: tests/servable_local/aws/aws_answers.jsonl in the
repository has most with date and source; what no row has is from memory, with a code of botocore's model.
"""

import base64
import hashlib
import io
import json
import re
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from moto.awslambda import urls
from moto.awslambda.exceptions import UnknownFunctionException
from moto.awslambda.models import LambdaFunction
from moto.awslambda.responses import LambdaResponse

from servable_local.aws.loopback import service_model

_Given = Mapping[str, Any]
_Problems = Iterator[tuple[str, str]]
_INIT, _UPDATE = LambdaFunction.__init__, LambdaFunction.update_configuration
_CONFIGURATION = LambdaFunction.get_configuration
_IN_PROGRESS = {
    "LastUpdateStatus": "InProgress",
    "LastUpdateStatusReason": "The function is being created.",
    "LastUpdateStatusReasonCode": "Creating",
}
# https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtimes.html, deprecated runtimes, and what was
# recorded on 2026-01-12: those, and AWS's sentence of the others in its order.
_NO_LONGER = (
    *(
        "dotnetcore1.0",
        "dotnetcore2.0",
        "dotnetcore2.1",
        "dotnetcore3.1",
        "go1.x",
        "java8",
        "nodejs",
    ),
    *(
        "nodejs10.x",
        "nodejs12.x",
        "nodejs14.x",
        "nodejs4.3",
        "nodejs4.3-edge",
        "nodejs6.10",
        "nodejs8.10",
    ),
    *("provided", "python2.7", "python3.6", "python3.7", "ruby2.5", "ruby2.7"),
)
_RUNTIMES = (
    "nodejs20.x, python3.14, provided.al2023, python3.12, python3.13, nodejs24.x, nodejs22.x, java25, "
    "python3.10, python3.11, java21, ruby3.3, ruby3.4, ruby3.2, python3.8, python3.9, java17, nodejs16.x, "
    "dotnet10, dotnet8, java11, dotnet6, nodejs18.x, provided.al2, java8.al2"
)
_NAME = re.compile(
    r"(?:(?:arn:[\w-]+:lambda:)?([a-z][\w-]+-\d):)?(?:\d{12}:)?(?:function:)?([\w.-]+)(?::([$\w.-]+))?"
)
_PRINCIPAL = re.compile(r"\*|\d{12}|arn:.+|[\w.-]+\.amazon(aws)?\.com(\.cn)?")
_ALIAS = re.compile(r"(?!\d+$)[\w-]+")
_LONGEST_NAME = 64
_SOURCES = {"ImageUri", "S3Bucket", "ZipFile"}
_OF_VERSIONS = ("AddPermission", "GetFunction", "GetFunctionConfiguration")


def install() -> None:
    """Idempotent."""
    paths = {path.replace(r"[\w_:%-]+", "[^/]+"): api for path, api in urls.url_paths.items()}
    urls.url_paths.clear()
    urls.url_paths.update(paths)
    setattr(LambdaFunction, "__init__", _init)  # noqa: B010 (mypy)
    setattr(LambdaFunction, "update_configuration", _update)  # noqa: B010
    setattr(LambdaFunction, "get_configuration", _configuration)  # noqa: B010
    for name, change in _CHANGED.items():
        method = getattr(LambdaResponse, name)
        if method.__module__ != __name__:
            setattr(LambdaResponse, name, _changed(method, change))


def given(api: Any) -> dict[str, Any]:
    """A REST request's members, from its path, its query and its body."""
    service = "lambda" if api.service_name == "awslambda" else api.service_name
    operation = service_model(service).operation_model(api._get_action())
    shape: Any = operation.input_shape
    path = re.sub(r"\{(\w+)\}", r"(?P<\1>.+)", operation.http["requestUri"].rstrip("/"))
    in_path = re.fullmatch(f"{path}/?", api.path)
    found = {key: unquote(value) for key, value in in_path.groupdict().items()} if in_path else {}
    if "payload" not in shape.serialization:
        found |= json.loads(api.body or "{}")
    for name, member in shape.members.items():
        values = api.querystring.get(member.serialization.get("name"))
        if member.serialization.get("location") == "querystring" and values:
            found[name] = values if member.type_name == "list" else values[0]
    return found


def problems(api: Any, given: _Given) -> _Problems:
    """Why Lambda refuses what its model allows."""
    operation, code = api._get_action(), given.get("Code") or {}
    found = _NAME.fullmatch(given.get("FunctionName", ""))
    region, name, derived = found.groups() if found else (None, "", None)
    qualifier = given.get("Qualifier") or derived or ""
    of_alias = _ALIAS.fullmatch(qualifier) is not None
    if region not in (None, api.region):
        problem = f"Functions from '{region}' are not reachable in this region ('{api.region}')"
        yield "ResourceNotFoundException", problem
    invalid = {
        "An error occurred and the request cannot be processed.": (
            operation == "TagResource" and not given["Tags"]
        ),
        "Tags on function aliases and versions are not supported. Please specify a function ARN.": (
            operation in ("TagResource", "UntagResource") and given["Resource"].count(":") > 6
        ),
        "The derived qualifier from the function name does not match the specified qualifier.": (
            derived not in (None, qualifier)
        ),
        f"1 validation error detected: Value '{name}' at 'functionName' failed to satisfy constraint: "
        f"Member must have length less than or equal to {_LONGEST_NAME}": (
            operation == "CreateFunction" and len(name) > _LONGEST_NAME
        ),
        "Could not unzip uploaded file. Please check your file, then try to upload again.": (
            operation == "CreateFunction" and _is_no_archive(code.get("ZipFile"))
        ),
        "Please provide a source for function code.": (
            operation == "UpdateFunctionCode" and not _SOURCES & given.keys()
        ),
        "You must specify at least one of error handling or destination setting.": (
            operation == "PutFunctionEventInvokeConfig"
            and given.keys() <= {"FunctionName", "Qualifier"}
        ),
        "$LATEST version cannot be deleted without deleting the function.": (
            operation == "DeleteFunction" and qualifier == "$LATEST"
        ),
        "Deletion of aliases is not currently supported.": operation == "DeleteFunction"
        and of_alias,
        "We currently do not support adding policies for $LATEST.": (
            operation == "AddPermission" and qualifier == "$LATEST"
        ),
        "The provided principal was invalid. Please check the principal and try again.": (
            operation == "AddPermission" and not _PRINCIPAL.fullmatch(given["Principal"])
        ),
        **_runtime(given.get("Runtime")),
    }
    yield from (
        ("InvalidParameterValueException", why) for why, refused in invalid.items() if refused
    )
    if operation in _OF_VERSIONS:
        try:
            api.backend.get_function(name, qualifier or None)
        except UnknownFunctionException:
            there = name in api.backend._lambdas._functions
            no_alias = operation == "AddPermission" and of_alias and there
            missing = "Cannot find alias arn" if no_alias else "Function not found"
            arn = f"arn:aws:lambda:{api.region}:{api.current_account}:function:{name}"
            arn += f":{qualifier}" if qualifier else ""
            yield "ResourceNotFoundException", f"{missing}: {arn}"


def _is_no_archive(content: str | None) -> bool:
    """Whether what is in base64 is there and is no zip."""
    return bool(content) and not zipfile.is_zipfile(io.BytesIO(base64.b64decode(content or "")))


def _runtime(name: str | None) -> dict[str, bool]:
    known: Any = service_model("lambda").shape_for("Runtime")
    return {
        f"The runtime parameter of {name} is no longer supported for creating or updating AWS Lambda "
        "functions. We recommend you use a supported runtime while creating or updating functions.": (
            name in _NO_LONGER
        ),
        f"Value {name} at 'runtime' failed to satisfy constraint: Member must satisfy enum value set: "
        f"[{_RUNTIMES}] or be a valid ARN": name not in (None, *known.enum),
    }


def status(api: Any, of_moto: int) -> int:
    """A success's is the model's, but where a member of the answer has it."""
    operation: Any = service_model("lambda").operation_model(api._get_action())
    members = operation.output_shape.members if operation.output_shape else {}
    said = any(member.serialization.get("location") == "statusCode" for member in members.values())
    return of_moto if said else int(operation.http.get("responseCode", 200))


def error(body: str) -> str:
    """moto's error with the members that the model gives it."""
    told = json.loads(body or "{}")
    shapes = {shape.name: shape for shape in service_model("lambda").error_shapes}
    shape = shapes.get(told.get("__type"))
    if shape and "Type" in shape.members and "message" in told:
        message = told.pop("message")
        told |= {"Type": "User", "Message" if "Message" in shape.members else "message": message}
    return json.dumps(told)


def _init(function: Any, account_id: str, spec: dict[str, Any], *more: Any, **named: Any) -> None:
    function.servable_given = {}
    _remember(function, spec)
    _INIT(function, account_id, spec, *more, **named)


def _update(function: Any, config_updates: dict[str, Any]) -> Any:
    _remember(function, config_updates)
    return _UPDATE(function, config_updates)


def _remember(function: Any, spec: dict[str, Any]) -> None:
    """What moto does not keep, or not where it is empty."""
    kept = function.servable_given
    if spec.get("Environment") is not None:
        kept["Environment"] = spec["Environment"]
    kept["LoggingConfig"] = kept.get("LoggingConfig", {}) | (spec.get("LoggingConfig") or {})


def _configuration(function: Any, on_create: bool = False) -> dict[str, Any]:
    """With its log group and its revision, which is another after each change."""
    config = _CONFIGURATION(function, on_create)
    config |= function.servable_given
    logging = {"LogFormat": "Text", "LogGroup": function.logs_group_name} | config["LoggingConfig"]
    in_json = {"ApplicationLogLevel": "INFO", "SystemLogLevel": "INFO"}
    config["LoggingConfig"] = (in_json if logging["LogFormat"] == "JSON" else {}) | logging
    if not config["Layers"]:
        del config["Layers"]
    if function.run_time:
        version = hashlib.sha256(function.run_time.encode()).hexdigest()
        arn = f"arn:aws:lambda:{function.region}::runtime:{version}"
        config["RuntimeVersionConfig"] = {"RuntimeVersionArn": arn}
    if on_create:
        reason = "The function is being created."
        config |= {"State": "Pending", "StateReason": reason, "StateReasonCode": "Creating"}
    state = json.dumps(config, default=str)
    return config | {"RevisionId": str(uuid.uuid5(uuid.NAMESPACE_OID, state))}


def _changed(method: Any, change: Callable[[Any], Any]) -> Any:
    def changed(api: Any) -> Any:
        answer = method(api)
        status, headers, body = answer if isinstance(answer, tuple) else (200, {}, answer)
        return status, headers, json.dumps(change(json.loads(body)))

    return changed


def _stateless(functions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lists say nothing of a function's state."""
    left_out = ("LastUpdateStatus", "RuntimeVersionConfig", "State")
    return [{key: one[key] for key in one if key not in left_out} for one in functions]


_CHANGED: Mapping[str, Callable[[Any], Any]] = {
    "list_functions": lambda told: {"Functions": _stateless(told["Functions"])},
    "list_versions_by_function": lambda told: {"Versions": _stateless(told["Versions"])},
    "update_function_code": lambda told: told | _IN_PROGRESS,
    "update_function_configuration": lambda told: told | _IN_PROGRESS,
}
