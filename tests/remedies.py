"""Follow what a message tells to do: parse its commands as their programs do, and look up its keys."""

import ast
import functools
import json
import re
import shlex
import typing
from collections.abc import Iterator
from pathlib import Path

import botocore.session
import click
from botocore import xform_name

from infra.parameters.environment import Environment
from infra.parameters.keys import find_type
from infra.parameters.reference import build_json_schema
from scripts.build_wheels import FOLDERS
from servable.main import servable
from servable_local.aws.command import commands
from tests.checkouts import ROOT

PACKAGES = ("servable", "infra", "model_packaging", "stacks", "servable_local", "servable_client")
# What only the user can choose; the environment isn't among it, because a command knows it.
CHOSEN = {"SAVED_MODEL", "DIRECTORY", "FOLDER", "COMMAND", "FILE", "DIR"}
PLACEHOLDER = re.compile(r"(?<![\w/.$-])(ENV|[A-Z]{3,}|[NX])(?![\w/.-])")
CDK_VERBS = {"bootstrap", "deploy", "destroy", "diff", "list", "synth"}
# Of the AWS CLI alone; the others are operations of botocore's services.
AWS_COMMANDS = {("configure",), ("logs", "tail")}
_TABLES = "|".join(Environment.model_fields)
_KEY = re.compile(rf"(?<![\w./'\"`:{{@-])(?:{_TABLES})(?:\.(?:[A-Za-z][\w-]*|\{{\}}))+(?![(\w])")
# Names of files and hosts that begin like keys.
_NO_KEY = re.compile(r"\.(toml|json|py|md|html|gz|keras|log|amazonaws|com|org)$")
_UNITS = "seconds|minutes|days|ms|percent|bytes|gib|mib|rps|instances|usd"
_VALUE = re.compile(
    rf"(?<![\w.`/{{$:'\"-])[a-z]+(?:_[a-z0-9]+)*_(?:{_UNITS})(?![\w(/=\[:'\"`-]|\.\w)"
)
_WHOLE = re.compile(r"servable [a-z]+(?: (?:\{\}|--[a-z-]+|[A-Z]+))+")


def sentences() -> Iterator[tuple[str, str]]:
    """Yield (place, text) of every string of the sources that isn't a docstring; X stands for a value."""
    for package in PACKAGES:
        for file in sorted(FOLDERS[package].rglob("*.py")):
            if "template" not in file.parts:
                yield from _strings_in(file)


def _strings_in(file: Path) -> Iterator[tuple[str, str]]:
    tree = ast.parse(file.read_text())
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in skipped:
                continue
            text = node.value
        else:
            continue
        yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def commands_in(text: str) -> list[str]:
    """Return the commands in backticks, and a text that is one; without those that are only a value."""
    spans: list[str] = re.findall(r"`([^`\n]+)`", text) + [text] * bool(_WHOLE.fullmatch(text))
    programs = ("servable", "servable-local", "aws", "cdk", "npx", "eval", "make", "{} ")
    return [span for span in spans if span.startswith(programs) and " " in span]


def problem_with(command: str) -> str | None:
    """Return why the program that the command names would not take it; None if it would.

    An operation that a value states isn't known here: tests of verify follow such a command in the local AWS.
    """
    if re.match(r"(aws [a-z]+ )?\{\}( --| \{|$)", command):
        return None
    if command.startswith("eval "):
        command = re.sub(r'^eval "\$\((.*)\)"$', r"\1", command)
    words = shlex.split(command.replace("{}", "1"), comments=True)
    if unknown := set(PLACEHOLDER.findall(command)) - CHOSEN:
        return f"placeholder {', '.join(sorted(unknown))}"
    if words[0] == "npx":
        words = words[1:]
    if words[0] == "servable":
        return _problem_of_click(servable, words[1:])
    if words[0] == "servable-local":
        return _problem_of_click(commands("servable-local", Path.cwd), words[1:])
    if words[0] == "aws":
        return _problem_of_aws(words[1:])
    # In the place of a program that a value names, only the CDK CLI and `servable` are known.
    verbs = {*CDK_VERBS, "up", "down", "install", "-C"}
    verb = words[1].removesuffix("1")  # an option that a value states may follow at once
    return None if verb in verbs else f"{words[0]} has no {verb}"


def _problem_of_click(group: click.Command, words: list[str]) -> str | None:
    context = None
    command = group
    try:
        while isinstance(command, click.Group):
            context = command.make_context(command.name, list(words), parent=context)
            words = [*context._protected_args, *context.args]
            if not words:
                return None
            _, found, words = command.resolve_command(context, words)
            assert found is not None
            command = found
        command.make_context(command.name, list(words), parent=context)
    except click.MissingParameter:
        pass  # the name of a command or option in a sentence
    except click.BadParameter as wrong:
        return None if "does not exist" in wrong.message else wrong.format_message()
    except click.BadOptionUsage as wrong:
        return None if "requires an argument" in wrong.message else wrong.format_message()
    except click.UsageError as wrong:
        return wrong.format_message()
    return None


@functools.cache
def _session() -> botocore.session.Session:
    return botocore.session.Session()


def _problem_of_aws(words: list[str]) -> str | None:
    if any(tuple(words[: len(known)]) == known for known in AWS_COMMANDS):
        return None
    service = {"s3api": "s3"}.get(words[0], words[0])
    if service not in _session().get_available_services():
        return f"no service {words[0]}"
    model = _session().get_service_model(service)
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    if words[1] not in operations:
        return f"{words[0]} has no {words[1]}"
    shape = model.operation_model(operations[words[1]]).input_shape
    members = {xform_name(name, "-") for name in shape.members} if shape else set()
    options = {word[2:] for word in words[2:] if word.startswith("--")} - {"region"}
    unknown = {option for option in options if not {option, option.removeprefix("no-")} & members}
    return f"no option {', '.join(sorted(unknown))}" if unknown else None


def unknown_keys_in(text: str) -> list[str]:
    """Return the dotted keys of an environment file in a text that no file may have."""
    keys = [key for key in _KEY.findall(text) if not _NO_KEY.search(key) and key[-1] != "_"]
    return [key for key in keys if not _is_key(tuple(key.split(".")))]


def unknown_values_in(text: str) -> list[str]:
    """Return the words with a unit, such as timeout_seconds, that no table of the file has as a key."""
    return [word for word in _VALUE.findall(text) if word not in _key_names()]


def _is_key(key: tuple[str, ...]) -> bool:
    """Return whether a file may have the key; instead of `{}` any key of its table will do."""
    for end in range(1, len(key) + 1):
        kind = find_type(key[:end])
        if kind is None:
            return key[end - 1] == "{}"
        if typing.get_origin(kind) is list:
            return True  # a table inside it isn't looked up
    return True


@functools.cache
def _key_names() -> set[str]:
    """Return the names of all keys, in whatever table."""
    schema = json.loads(build_json_schema())
    tables = [schema, *schema["$defs"].values()]
    return {name for table in tables for name in table.get("properties", {})}
