"""boto3 clients whose calls are answered from a table; botocore checks both sides against its models."""

import functools
import io
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError
from botocore.response import StreamingBody
from botocore.validate import ParamValidator

from servable.project import account as aws_account
from servable.verify.deployed import DeployedStack, Resource
from servable.verify.difference import Difference

NUMBER, REGION, TIME = "111111111111", "us-east-1", "2026-11-29T00:00:00Z"
Found = Mapping[str, Any] | str | None
Answer = Found | Callable[[Mapping[str, Any]], Found]


def body(content: bytes) -> StreamingBody:
    return StreamingBody(io.BytesIO(content), len(content))


class AnsweringAccount(aws_account.Account):
    """`answers`: operation -> its answer, or a function of its parameters.

    None: it doesn't exist. A text is the message with which AWS rejects the call.
    """

    def __init__(self, **answers: Answer) -> None:
        self.region, self.number = REGION, NUMBER
        self.answers: dict[str, Answer] = dict(answers)
        self.calls: list[tuple[str, Mapping[str, Any]]] = []

    def client(self, service: str) -> Any:
        client, account = _client(service)
        account[:] = [self]
        return client

    def answer(self, model: Any, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
        self.calls.append((model.name, parameters))
        answer = self.answers[model.name]
        found = answer(parameters) if callable(answer) else answer
        if found is None or isinstance(found, str):
            code = "NoSuchEntity" if found is None else "ValidationException"
            error = {"Error": {"Code": code, "Message": found or f"no {model.name}"}}
            raise ClientError(error, model.name)
        if model.output_shape is not None:
            found = fill_required(model.output_shape, found)
            told = {**found, "Body": b""} if "Body" in found else found
            report = ParamValidator().validate(told, model.output_shape)
            assert not report.has_errors(), report.generate_report()
        return found


def fill_required(shape: Any, value: Any) -> Any:
    """Return an answer with a value for each member that AWS always has, and a test doesn't say."""
    if shape.type_name == "list":
        return [fill_required(shape.member, one) for one in value]
    if shape.type_name != "structure":
        return value
    found = {name: fill_required(shape.members[name], one) for name, one in value.items()}
    for name in set(shape.required_members) - found.keys():
        member = shape.members[name]
        if member.type_name == "string":
            values = member.enum or ["x" * member.metadata.get("min", 1)]
            found[name] = values[0]
        else:
            kinds: dict[str, Any] = {"timestamp": TIME, "list": [], "structure": {}, "integer": 0}
            found[name] = fill_required(member, kinds[member.type_name])
    return found


@functools.cache
def _client(service: str) -> tuple[Any, list[AnsweringAccount]]:
    client = boto3.client(
        service, region_name=REGION, aws_access_key_id="x", aws_secret_access_key="x"
    )
    account: list[AnsweringAccount] = []

    def keep(params: Mapping[str, Any], context: dict[str, Any], **_: Any) -> None:
        context["parameters"] = dict(params)

    def give(model: Any, context: dict[str, Any], **_: Any) -> tuple[Any, Mapping[str, Any]]:
        answer = account[0].answer(model, context["parameters"])
        return type("Http", (), {"status_code": 200}), answer

    client.meta.events.register("provide-client-params", keep)
    client.meta.events.register("before-call", give)
    return client, account


def stack(account: AnsweringAccount, *resources: Resource) -> DeployedStack:
    return DeployedStack(
        account=account, name="prod-endpoint", status="", template={}, resources=resources
    )


def resource(kind: str, physical: str, **properties: Any) -> Resource:
    logical = f"{kind.rsplit(':', 1)[-1]}1"
    return Resource(logical=logical, type=f"AWS::{kind}", physical=physical, properties=properties)


def keys(found: Iterable[Difference]) -> list[tuple[str, str, str]]:
    return [(each.kind, each.resource, each.key) for each in found]
