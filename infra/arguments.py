"""Reads the constructs' arguments as tables of an environment file.

Errors are phrased with the names of the arguments.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from infra.parameters.finding import find_nearest
from infra.parameters.keys import convert_error
from infra.parameters.sources import Source
from infra.parameters.table import Table

T = TypeVar("T", bound=Table)
# A key of an environment file that an argument has a different name for.
ARGUMENTS: Mapping[str, str] = {
    "saved_model": "folder",
    "artifact.uri": "key",
    "artifact.sha256": "sha256",
    "artifact.model_package": "model_package_arn",
    "endpoint.name": "endpoint_name",
    "endpoint.volume_kms_key": "volume_key",
    "endpoint.log_retention_days": "retention_days",
}
# What an app calls or passes where an environment file has a table, and what has the table's keys.
_TABLES = {
    "rollout": ("endpoint.roll_out(…)", "roll_out"),
    "alarms": ("endpoint.add_alarms(…)", "add_alarms"),
    "scaling": ("auto_scale(…)", "auto_scale"),
    "capture": ("Endpoint(capture=…)", "Capture"),
    "asynchronous": ("Endpoint(async_inference=…)", "Asynchronous"),
    "metrics": ("Endpoint(metrics=…)", "Metrics"),
    "traffic": ("Endpoint(traffic=…)", "Traffic"),
    "network": ("network=ModelNetwork(…)", "Network"),
    "acknowledge": ("Endpoint(acknowledge={…})", "Endpoint"),
    "endpoint": ("Endpoint(…)", "Endpoint"),
    "components": ("variant.add_component(…)", "add_component"),
    "container": ("container=ContainerSettings(…)", "ContainerSettings"),
    "serverless": ("VariantSettings(serverless=…)", "Serverless"),
    "models": ("Model", "Model"),
    "variants": ("endpoint.add_variant(…)", "add_variant"),
}
# Tables that an app imports under a different name.
_NAMES = {"Variant": "VariantSettings", "Component": "ComponentSettings"}
# Kind of a construct to an attribute that only this kind has, and what to pass.
_KINDS = {
    "bucket": ("bucket_name", 'pass its name, or s3.Bucket.from_bucket_arn(self, "Bucket", arn)'),
    "key": ("key_arn", 'pass a kms.Key, for example kms.Key.from_key_arn(self, "Key", arn)'),
    "grantee": (
        "grant_principal",
        'pass a role, such as iam.Role.from_role_arn(self, "Caller", arn)',
    ),
    "log group made by EndpointLogs": (
        "endpoint_name",
        'pass an EndpointLogs(self, "Logs", endpoint_name=…)',
    ),
    "model": ("described", "pass the result of Model.from_saved_model(…)"),
    "role": ("role_arn", 'pass an iam.Role, for example iam.Role.from_role_arn(self, "Role", arn)'),
    "security group": (
        "security_group_id",
        "pass an ec2.SecurityGroup, or IDs as network=Network(…)",
    ),
    "topic": (
        "topic_arn",
        'pass an sns.Topic, for example sns.Topic.from_topic_arn(self, "OnCall", arn)',
    ),
    "VPC": ("vpc_id", 'pass an ec2.Vpc, for example ec2.Vpc.from_lookup(self, "Vpc", vpc_id=…)'),
}
# Arguments of CDK's alpha module and of CloudFormation to ours, where the spelling doesn't show it.
_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "initial_instance_count": ("min_instances",),
    "initial_variant_weight": ("weight",),
    "variant_name": ("name",),
    "min_capacity": ("min_instances",),
    "max_capacity": ("max_instances",),
    "max_requests_per_second": ("max_rps_per_instance",),
    "encryption_key": ("volume_key", "key"),
    "kms_key": ("volume_key", "key"),
    "kms_key_id": ("volume_key", "key"),
    "vpc": ("network",),
    "security_groups": ("network",),
    "model_data": ("folder", "bucket"),
    "id": ("construct_id",),
}
_TAKEN_ID = re.compile(r"There is already a Construct with name '(.+)' in \w+(?: \[(.+)\])?")
# CDK's tokens of numbers are fractions below this.
_TOKENS = -1e289
# Where an environment file has a table, which knows its bounds.
_PREFIXES = {
    "ModelTable": ("models", "model"),
    "Variant": ("variants", "primary"),
    "Component": ("variants", "primary", "components", "model"),
    "Scaling": ("variants", "primary", "scaling"),
    "EndpointTable": ("endpoint",),
    "Alarms": ("alarms",),
    "Rollout": ("rollout",),
}
_SECTION = re.compile(
    r"(?:an? |the )?(?:table )?\[([a-z_]+)(?:\.[\w-]+(?:\.components\.[\w-]+)?)?(?:\.([a-z_]+))?\]"
)
_DOTTED = re.compile(
    r"\b(?:models|variants)\.[\w-]+\.(?:components\.[\w-]+\.)?([a-z_]+(?:\.[a-z_]+)?)"
)
_KEY = re.compile(rf"\b({'|'.join(_TABLES)})\.([a-z0-9_]+)")
_WORDS = {
    "add the table with": "call auto_scale with",
    "the scaling table": "auto_scale",
    "remove the table": "leave out the call",
    "in the file": "in the app",
    "= true": "= True",
    "= false": "= False",
}


def read_arguments(
    where: str, kind: type[T], given: Mapping[str, Any], base: Table | None = None
) -> T:
    """Return a table of the arguments that aren't None, with the other values of `base`.

    `where` is the construct's path and the call. Raises ValueError, which names the argument and
    the remedy.
    """
    chosen = {key: value for key, value in given.items() if value is not None}
    for key, value in chosen.items():
        if isinstance(value, float) and value < _TOKENS:
            raise ValueError(
                f"{where}: {key}: its value is known only to CloudFormation, but alarms, scaling, and checks "
                "are computed from it; pass a number"
            )
        if hasattr(value, "__jsii_type__"):
            raise ValueError(f"{where}: {key}: {_describe_object(key, value)}")
    if base is not None and not hasattr(base, "model_fields_set"):
        name = _NAMES.get(kind.__name__, kind.__name__)
        raise ValueError(f"{where}: settings: {base!r} isn't a table; pass {name}(…)")
    kept = {} if base is None else {key: getattr(base, key) for key in base.model_fields_set}
    try:
        return kind.model_validate({**kept, **chosen})
    except ValidationError as wrong:
        raise ValueError(f"{where}: {format_errors(wrong, kind)}") from None


def _describe_object(key: str, value: Any) -> str:
    """Return problem and remedy of one of CDK's objects in place of a number or text."""
    name, unit = type(value).__name__, key.rpartition("_")[2]
    convert = {"ms": "to_milliseconds", "seconds": "to_seconds", "minutes": "to_minutes"}.get(unit)
    if convert and hasattr(value, convert):
        return f"a {name} isn't a number; pass {getattr(value, convert)():g}"
    if hasattr(value, "is_burstable"):  # aws_ec2.InstanceType
        return f'an {name} isn\'t a string; pass "ml.{value.to_string()}"'
    return f"a {name} isn't a number or text; pass the value itself"


def check_kind(where: str, kind: str, **arguments: object) -> None:
    """Raise ValueError for an argument that isn't of a kind of construct, such as an ARN."""
    attribute, remedy = _KINDS[kind]
    for name, value in arguments.items():
        if value is not None and not hasattr(value, attribute):
            shown = repr(value) if isinstance(value, str) else type(value).__name__
            raise ValueError(f"{where}: {name}: {shown} isn't a {kind}; {remedy}")


def explain_calls(classes: Iterable[type]) -> None:
    """Replace the errors of wrong calls of these constructs, and of their bases, by ones with a remedy.

    A TypeError for an unknown or missing argument names what to pass; CDK's RuntimeError for a construct ID
    that is taken, or a scope without a stack, becomes a ValueError. Calls that succeed aren't inspected.
    """
    bases = dict.fromkeys(base for each in classes for base in each.__mro__)
    for each in (base for base in bases if base.__module__.startswith("infra.constructs.")):
        for name, member in list(vars(each).items()):
            if name.startswith("_") and name != "__init__":
                continue
            if isinstance(member, staticmethod):
                setattr(each, name, staticmethod(_explain_call(member.__func__)))
            elif inspect.isfunction(member):
                setattr(each, name, _explain_call(member))


def _explain_call(function: Callable[..., Any]) -> Callable[..., Any]:
    called = function.__qualname__.removesuffix(".__init__")

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError:
            problem = _describe_wrong_call(function, len(given), named)
            if problem is None:
                raise
            raise TypeError(f"{called}: {problem}") from None
        except RuntimeError as error:
            if "ShouldBeCreatedInStackScope" in str(error):
                raise ValueError(f"{called}: scope: it isn't in a Stack; pass a Stack") from None
            taken = _TAKEN_ID.search(str(error))
            if not taken:
                raise
            place = f"{taken[2]}/{taken[1]}" if taken[2] else taken[1]
            raise ValueError(
                f"{place}: construct_id: {taken[1]!r} is the ID of another construct in the same scope; "
                "pass another one"
            ) from None

    return call


def _describe_wrong_call(
    function: Callable[..., Any], given: int, named: Mapping[str, Any]
) -> str | None:
    """Return the first argument that doesn't fit, with the remedy; None if all of them fit.

    given: Number of positional arguments, self included.
    """
    known = inspect.signature(function).parameters.values()
    positional = [each.name for each in known if each.kind is each.POSITIONAL_OR_KEYWORD]
    passed = {*positional[:given], *named}
    open_names = [each.name for each in known if each.name not in passed]
    allowed = [each.name for each in known if each.name not in ("self", "scope")]
    unknown = next((each for each in named if each not in allowed), None)
    if unknown and not any(each.kind is each.VAR_KEYWORD for each in known):
        elsewhere = [each for each in _ELSEWHERE.get(unknown, ()) if each in allowed]
        longer = [each for each in allowed if unknown in each.split("_")]
        close = next(iter([*elsewhere, *longer]), None) or find_nearest(unknown, allowed)
        return f"{unknown}: unknown argument; use {close or 'one of ' + ', '.join(allowed)}"
    if given > len(positional):
        names = ", ".join(f"{name}=…" for name in open_names[:3])
        return f"too many positional arguments after {positional[-1]}; pass them by name: {names}"
    missing = [
        each.name
        for each in known
        if each.default is each.empty and each.name in open_names and each.kind <= each.KEYWORD_ONLY
    ]
    return f"{' and '.join(missing)}: missing; pass a value" if missing else None


def format_errors(wrong: ValidationError, kind: type) -> str:
    """Return every error of a table in one text.

    It has the argument, the problem, the allowed values, and the remedy.
    """
    prefix = _PREFIXES.get(kind.__name__, ())
    return "; ".join(dict.fromkeys(_format_error(error, prefix) for error in wrong.errors()))


def _format_call_errors(wrong: ValidationError, kind: type) -> str:
    return f"{_NAMES.get(kind.__name__, kind.__name__)}: {format_errors(wrong, kind)}"


# An app calls tables itself, for example Alarms(p99_latency_ms=80).
Table.format_error = _format_call_errors


def _format_error(error: ErrorDetails, prefix: tuple[str, ...]) -> str:
    key = ".".join(str(part) for part in error["loc"])
    if key.endswith(".[key]"):
        key = "model_name" if key.startswith("models") else key.removesuffix(".[key]")
    key = ARGUMENTS.get(".".join((*prefix[:1], key)), ARGUMENTS.get(key, key))
    if "error" in error.get("ctx", {}):  # about several arguments
        return f"{key}: {error['ctx']['error']}".removeprefix(": ")
    found = convert_error({**error, "loc": (*prefix, *error["loc"])}, Source(values={}), "app")
    allowed = f"; allowed: {found.allowed}" if found.allowed else ""
    return f"{key}: {found.problem}{allowed}; {replace_keys(found.remedy)}"


def replace_keys(text: str) -> str:
    """Return a text about an environment file with its keys and tables replaced by arguments.

    The text is for users of the constructs, who have no environment file.
    """
    text = _DOTTED.sub(lambda found: ARGUMENTS.get(found[1], found[1]), text)
    text = _KEY.sub(
        lambda found: f"{_convert_key_name(found[0], found[2])} of {_TABLES[found[1]][1]}", text
    )
    text = _SECTION.sub(_convert_table_name, text)
    for words, others in _WORDS.items():
        text = text.replace(words, others)
    return text


def convert_key(key: str) -> str:
    """Return the argument that a dotted key stands for.

    For example, models.ranker.saved_model is "ranker: folder".
    """
    table, _, rest = key.partition(".")
    if table in ("models", "variants") and rest:
        name, _, rest = rest.partition(".")
        inner, _, last = rest.partition(".")
        called = f"auto_scale: {last}".removesuffix(": ") if inner == "scaling" else ""
        return ": ".join(filter(None, (name, called or ARGUMENTS.get(rest, rest))))
    called = _TABLES[table][1] if table in _TABLES else table
    return ": ".join(filter(None, (called, _convert_key_name(key, rest))))


def _convert_key_name(key: str, name: str) -> str:
    return ARGUMENTS.get(key, ARGUMENTS.get(name, name))


def _convert_table_name(found: "re.Match[str]") -> str:
    table, inner = found[1], found[2]
    table = inner if table in ("variants", "models") and inner in _TABLES else table
    return _TABLES[table][0] if table in _TABLES else found[0]
