"""Write the reference pages of commands and constructs, and the table of the local AWS's services.

docs/reference/commands.md has the output of every `servable COMMAND --help`.
docs/reference/constructs.md has every public construct with its arguments and defaults, from the docstrings:
the sources are read and not imported, because CDK would take seconds. The table of docs/local-aws.md is read
from the code.
"""

import ast
import importlib
import inspect
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import botocore.session
import click
from botocore import xform_name

from servable.main import COMMANDS, servable
from servable_local.aws.cloudformation.api import CloudFormationApi
from servable_local.aws.cloudwatch.api import CloudWatchApi
from servable_local.aws.moto_patches.every_service import has_no_effect
from servable_local.aws.moto_patches.logs import LogsApi
from servable_local.aws.moto_patches.s3 import S3Api
from servable_local.aws.resources import TYPES
from servable_local.aws.sagemaker.endpoint_api import SageMakerApi
from servable_local.aws.sagemaker.runtime_api import RuntimeApi
from servable_local.aws.scaling.api import ScalingApi
from servable_local.aws.workflows.executions import StateMachinesApi
from servable_local.aws.workflows.schedules import SchedulerApi

COLUMNS = 100  # a page is not as wide as somebody's terminal

COMMANDS_HEAD = Path(__file__).with_name("commands_head.md")


def render_commands(group: click.Group = servable) -> str:
    """Return the page: commands in order, each with its help; a group's own commands after it."""
    table, sections = "| command | |\n|---|---|\n", ""
    for path, summary, text in _list_commands(group, group.name or ""):
        table += f"| [{path}](#{path.replace(' ', '-')}) | {summary} |\n"
        sections += f"\n## {path}\n\n```text\n{text}\n```\n"
    return COMMANDS_HEAD.read_text(encoding="utf-8") + table + sections


def _list_commands(group: click.Group, path: str) -> Iterator[tuple[str, str, str]]:
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None  # the group has just named it
        whole = f"{path} {name}"
        context = click.Context(
            command, info_name=whole, terminal_width=COLUMNS, max_content_width=COLUMNS,
            color=False, help_option_names=["-h", "--help"],
        )  # fmt: skip
        # Click keeps the option of a command's first call, which may only have had --help.
        command._help_option = None
        # The list of commands has its own summaries.
        own = COMMANDS[name] if path == "servable" else command.get_short_help_str(COLUMNS)
        yield whole, own, command.get_help(context).rstrip()
        if isinstance(command, click.Group):
            yield from _list_commands(command, whole)


ROOT = Path(__file__).resolve().parents[2]
FACADE = ROOT / "servable" / "constructs.py"
CONSTRUCTS_HEAD = """\
# Constructs

Generated from the docstrings by `python scripts/generate.py`; do not edit.

Use every name of `servable.constructs` in [your own CDK app](../own-app.md). All arguments except scope and
id are keyword-only.
"""
TABLES = "infra.parameters."  # the tables of an environment file, and what is in them


def render_constructs() -> str:
    """Return the page of the constructs."""
    return CONSTRUCTS_HEAD + "".join(f"\n{text}" for text in _render_sections())


def _render_sections() -> Iterator[str]:
    tree = ast.parse(FACADE.read_text(encoding="utf-8"))
    tables = []
    for name, (module, original) in sorted(_find_imported(tree).items()):
        node = _find_definition(module, original)
        if module.startswith(TABLES) or module == "infra.policy.container":
            tables.append(f"`{name}`")
        elif node is not None:
            yield f"## {name}\n\n{_render_definition(node)}"
    yield (
        f"## Values\n\n{', '.join(tables)} are tables of an environment file. For their keys, units, "
        "defaults, and reasons, see [parameters](parameters.md).\n"
    )


def _find_imported(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """Map each public name to the module and the name that it comes from."""
    return {
        alias.asname or alias.name: (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and node.module
        and node.module.startswith(("infra.", "stacks."))
        for alias in node.names
        if alias.name[0].isupper()
    }


def _find_definition(module: str, name: str) -> ast.ClassDef | ast.FunctionDef | None:
    file = ROOT / (module.replace(".", "/") + ".py")
    if not file.is_file():
        return None  # `environment_stage` itself, a module
    nodes = ast.parse(file.read_text(encoding="utf-8")).body
    kinds = (node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef))
    return next((node for node in kinds if node.name == name), None)


def _render_definition(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return docstrings and signatures: of the class, its constructor, its methods, and its attributes."""
    parts = [_format_docstring(node)]
    if isinstance(node, ast.FunctionDef):
        return "\n".join([*parts, _format_code(_format_signature(node))])
    items = [
        f"- `{ast.unparse(field)}`: {said}\n"
        for field, said in _list_documented(node.body)
        if isinstance(field, ast.AnnAssign)
    ]
    sections = []
    for member in (each for each in node.body if isinstance(each, ast.FunctionDef)):
        said = ast.get_docstring(member) or ""
        if member.name == "__init__":
            parts += [_format_code(_format_signature(member)), _format_docstring(member)]
            for field, text in _list_documented(member.body):
                targets = field.targets if isinstance(field, ast.Assign) else [field.target]
                names = [each.attr for each in targets if isinstance(each, ast.Attribute)]
                items += [f"- `{name}`: {text}\n" for name in names[:1]]
        elif member.name.startswith("_") or not said:
            continue
        elif _has_arguments(said) or member.args.kwonlyargs:
            text = f"{_format_docstring(member)}\n{_format_code(_format_signature(member))}"
            sections.append(f"### {node.name}.{member.name}\n\n{text}")
        else:
            items.append(f"- `{member.name}`: {_join_lines(said)}\n")
    return "\n".join(filter(None, [*parts, "".join(items), *sections]))


def _list_documented(
    body: list[ast.stmt],
) -> Iterator[tuple[ast.Assign | ast.AnnAssign, str]]:
    """Yield each assignment that a string follows, with that string."""
    for field, said in pairwise(body):
        is_text = isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant)
        if isinstance(field, ast.Assign | ast.AnnAssign) and is_text:
            yield field, _join_lines(ast.get_docstring(ast.Module([said], [])) or "")


def _has_arguments(docstring: str) -> bool:
    """Return whether a docstring describes arguments: `name: what it is`."""
    lines = (line.partition(": ") for line in docstring.splitlines()[1:])
    return any(colon and name.isidentifier() for name, colon, _ in lines)


def _format_signature(node: ast.FunctionDef) -> str:
    arguments = [
        f"    {ast.unparse(argument)}"
        for argument in node.args.args
        if node.name != "__init__" and argument.arg not in ("self", "scope", "construct_id")
    ]
    arguments += [
        f"    {ast.unparse(argument)}" + ("" if default is None else f" = {ast.unparse(default)}")
        for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    ]
    return ",\n".join(arguments)


def _format_code(text: str) -> str:
    return f"```text\n{inspect.cleandoc(text)}\n```\n" if text else ""


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _format_docstring(node: ast.ClassDef | ast.FunctionDef) -> str:
    """Return the docstring, with each `name: what it is` of an argument as an item of a list."""
    lines: list[str] = []
    for line in (ast.get_docstring(node) or "").splitlines():
        name, colon, said = line.partition(": ")
        if colon and name.isidentifier() and not line.startswith(" "):
            if lines and not lines[-1].startswith(("- ", "  ")) and lines[-1]:
                lines.append("")
            lines.append(f"- `{name}`: {said}")
        else:
            lines.append(line.replace("    ", "  ") if line.startswith(" ") else line)
    return "\n".join(lines) + "\n" if lines else ""


# Service of boto3 -> its class of ours, or the module and the class of moto's.
_APIS: dict[str, Any] = {
    "application-autoscaling": ScalingApi,
    "cloudformation": CloudFormationApi,
    "cloudwatch": CloudWatchApi,
    "ec2": "ec2.EC2Response",
    "ecr": "ecr.ECRResponse",
    "events": "events.EventsHandler",
    "iam": "iam.IamResponse",
    "kms": "kms.KmsResponse",
    "lambda": "awslambda.LambdaResponse",
    "logs": LogsApi,
    "s3": S3Api,
    "scheduler": SchedulerApi,
    "sagemaker": SageMakerApi,
    "sagemaker-runtime": RuntimeApi,
    "sns": "sns.SNSResponse",
    "sqs": "sqs.SQSResponse",
    "stepfunctions": StateMachinesApi,
    "ssm": "ssm.SimpleSystemManagerResponse",
    "sts": "sts.TokenResponse",
}
# CDK's own: no service has it.
_NO_SERVICES = {"AWS::CDK::Metadata"}
# Service in the name of a resource type, where boto3 has another.
_OF_TYPES = {"applicationautoscaling": "application-autoscaling"}


def list_local_services() -> Iterator[tuple[str, ...]]:
    """Yield the cells of each service. Raises `ValueError` if a resource type's service isn't listed."""
    session = botocore.session.Session()
    types = defaultdict(list)
    for kind in sorted(one for one in TYPES if one.startswith("AWS::") and one not in _NO_SERVICES):
        _, service, name = kind.split("::")
        types[_OF_TYPES.get(service.lower(), service.lower())].append(name)
    for service, api in _APIS.items():
        if isinstance(api, str):
            module, _, name = api.partition(".")
            api = getattr(importlib.import_module(f"moto.{module}.responses"), name)
        names = session.get_service_model(service).operation_names
        of_moto = "awslambda" if service == "lambda" else service
        known = [name for name in names if hasattr(api, xform_name(name))]
        answered = [name for name in known if not has_no_effect(of_moto, name, api)]
        ours = [vars(base) for base in api.__mro__ if base.__module__.startswith("servable")]
        acting = [name for name in answered if any(xform_name(name) in base for base in ours)]
        kept = f"{len(answered) - len(acting)} of {len(names)}"
        yield service, ", ".join(types.pop(service, [])), ", ".join(acting), kept
    if types:
        raise ValueError(f"missing API actions for the listed resource types {', '.join(types)}")
