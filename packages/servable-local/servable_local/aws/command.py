"""`servable-local up | status | down`: the local AWS without the command `servable`."""

import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from servable_local.aws.clock import SECONDS_PER_MINUTE
from servable_local.aws.lifecycle import LocalAwsStartError, down, find_default_folder, status, up
from servable_local.aws.local_aws import (
    ACCOUNT,
    REGION,
    BootstrapError,
    LocalAws,
    bootstrap,
    find_template,
)

DONE, FOUND_PROBLEMS, MISSING = 0, 1, 2
_NO_CONTAINERS = (
    "# SageMaker endpoints are in service without a container and reject every request; "
    "containers need 'servable-local[run]' (TensorFlow, 2 GB)"
)
# Variables that take precedence over ours, or that clients send with our key.
_LEAD_ELSEWHERE = re.compile(
    r"AWS_((DEFAULT_)?PROFILE|(SESSION|SECURITY)_TOKEN)$|AWS_ENDPOINT_URL_|AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
)


def start_local_aws(
    program: str,
    *,
    port: int = 0,
    minute: float = SECONDS_PER_MINUTE,
    containers: int | None = None,
    account: str = ACCOUNT,
    region: str = REGION,
    folder: Path | None = None,
    as_json: bool = False,
) -> str:
    """Start the local AWS, bootstrap the account, and return the text that `{program} up` prints.

    Raises `LocalAwsStartError`.
    """
    for name, value, form, example in (
        ("account", account, r"\d{12}", "12 digits, such as 123456789012"),
        ("region", region, r"[a-z]{2,4}(-[a-z]+)+-\d", "an AWS Region, such as us-east-1"),
    ):
        if not re.fullmatch(form, value, re.ASCII):
            raise LocalAwsStartError(f"{value!r} isn't a valid {name}; use {example}")
    if math.isnan(minute):  # which every range accepts
        raise LocalAwsStartError("--minute is not a number; allowed: 0.1 to 60")
    aws = up(port=port, folder=folder, seconds_per_minute=minute, most_containers=containers)
    runs = f"the local AWS already runs at {aws.url} (process {aws.pid})"
    if aws.already_up and minute not in (SECONDS_PER_MINUTE, aws.seconds_per_minute):
        raise LocalAwsStartError(
            f"{runs} with a minute of {aws.seconds_per_minute:g} s; "
            f"run `{program} down` first to use {minute:g} s"
        )
    if port and aws.port != port:
        raise LocalAwsStartError(f"{runs}; run `{program} down` first to use port {port}")
    try:
        # Without a CDK CLI, nobody has bootstrapped a local AWS that has just started.
        can_be = aws.already_up or find_template(aws.folder) is not None
        bootstrapped = can_be and bootstrap(aws, account=account, region=region, folder=aws.folder)
    except BootstrapError as error:
        raise LocalAwsStartError(f"{runs}, but {error}") from None
    variables = aws.environment(account=account, region=region)
    if as_json:
        added = {"already_up": aws.already_up, "bootstrapped": bootstrapped}
        return json.dumps(_describe(aws) | {"environment": variables} | added, indent=2)
    already = ", already up" if aws.already_up else ""
    state = "bootstrapped, ready for `cdk deploy`"
    if not bootstrapped:
        state = (
            "not bootstrapped, because the CDK CLI isn't installed here; run "
            f"`cdk bootstrap aws://{account}/{region}` before the first `cdk deploy`"
        )
    return (
        f"# local AWS at {aws.url}, process {aws.pid}{already}\n"
        f"# account {account}, Region {region}: {state}\n"
        f"# one minute of its alarms and deployments lasts {aws.seconds_per_minute:g} s\n"
        f"{_format_for_shell(aws, variables)}"
    )


def format_status(
    program: str, *, folder: Path | None = None, as_json: bool = False
) -> tuple[str, bool]:
    """Return the text that `status` prints, and whether the local AWS runs."""
    aws = status(folder=folder)
    if as_json:
        described = {} if aws is None else _describe(aws)
        return json.dumps({"up": aws is not None} | described, indent=2), aws is not None
    if aws is None:
        return f"local AWS: not running; `{program} up` starts it", False
    line = f"# local AWS at {aws.url}, process {aws.pid}, since {aws.started}"
    return f"{line}\n{_format_for_shell(aws, aws.environment())}", True


def stop_local_aws(*, folder: Path | None = None, as_json: bool = False) -> str:
    """Stop the local AWS and return the text that `down` prints."""
    ended = down(folder=folder)
    if as_json:
        return json.dumps({"ended": ended}, indent=2)
    if not ended:
        place = (folder or find_default_folder()).parent
        return _escape_controls(f"local AWS: not running for {place}")
    if not os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://127.0.0.1:"):
        return "local AWS: stopped"
    return (
        "local AWS: stopped; this terminal's AWS variables still point to it: open a new terminal, or "
        "start it here again"
    )


def commands(program: str, folder: Callable[[], Path]) -> click.Group:
    """Build the commands up, status, and down of `program`; `folder` returns the state's folder."""
    as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

    @click.group(
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Start, show and stop the local AWS, to which the real CDK CLI can deploy.",
    )
    def local() -> None:
        pass

    @local.command(
        "up",
        help="Start the local AWS, unless it runs already. Bootstrap an account and Region for the CDK, and "
        f"print credentials for a shell to evaluate. It runs until `{program} down`.",
    )
    @click.option("--port", default=0, show_default="any free one", type=click.IntRange(0, 65535))
    @click.option(
        "--minute",
        default=SECONDS_PER_MINUTE,
        show_default=True,
        type=click.FloatRange(0.1, 60.0),
        help="Duration of one minute of alarms and deployments, in seconds.",
    )
    @click.option(
        "--containers",
        show_default="1, or 0 where TensorFlow is not installed",
        type=click.IntRange(0, 64),
        help="Maximum number of containers per variant; further instances are only counted. "
        "0: endpoints are in service and reject every request.",
    )
    @click.option(
        "--account", default=ACCOUNT, show_default=True, help="Account of the credentials."
    )
    @click.option("--region", default=REGION, show_default=True, help="Region of the clients.")
    @as_json
    @click.pass_context
    def up_command(context: click.Context, /, **options: Any) -> None:
        try:
            click.echo(start_local_aws(program, folder=folder(), **options))
        except LocalAwsStartError as error:
            click.echo(_escape_controls(f"{program} up: {error}"), err=True)
            context.exit(FOUND_PROBLEMS)

    @local.command(
        "status", help="Show whether the local AWS runs, and where. Exit code 1 if it does not."
    )
    @as_json
    @click.pass_context
    def status_command(context: click.Context, as_json: bool) -> None:
        text, runs = format_status(program, folder=folder(), as_json=as_json)
        click.echo(text)
        context.exit(DONE if runs else FOUND_PROBLEMS)

    @local.command("down", help="Stop the local AWS, and delete everything that is deployed to it.")
    @as_json
    def down_command(as_json: bool) -> None:
        click.echo(stop_local_aws(folder=folder(), as_json=as_json))

    return local


def main(words: Sequence[str] | None = None) -> int:
    """Run the console script `servable-local`, and return its exit code."""
    arguments = list(sys.argv[1:] if words is None else words)
    code = FOUND_PROBLEMS
    try:
        code = _run_command(arguments)
    finally:
        # `eval "$(servable-local up)" && cdk deploy` must not deploy with the shell's own credentials.
        if code and not {"status", "down"} & {*arguments}:
            print("false")
    return code


def _run_command(arguments: list[str]) -> int:
    # uvx doesn't put it on the user's PATH; `uv run` also sets VIRTUAL_ENV.
    by_uvx = "UV" in os.environ and os.environ.get("VIRTUAL_ENV") != sys.prefix
    program = commands("uvx servable-local" if by_uvx else "servable-local", find_default_folder)
    try:
        with program.make_context("servable-local", arguments) as context:
            program.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return MISSING
    except (OSError, ModuleNotFoundError) as error:
        said = f"servable-local {context.invoked_subcommand}: {error}"
        click.echo(_escape_controls(said), err=True)
        return FOUND_PROBLEMS if isinstance(error, OSError) else MISSING
    except KeyboardInterrupt:
        return 130
    return DONE


def _escape_controls(text: str) -> str:
    """Escape control characters, which a folder's name or a log line can contain, for a terminal."""
    shown = re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: repr(match[0])[1:-1], text)
    return shown.encode(errors="backslashreplace").decode()


def _describe(aws: LocalAws) -> dict[str, Any]:
    names = ("url", "port", "pid", "started", "seconds_per_minute", "most_containers")
    return {name: getattr(aws, name) for name in names} | {"environment": aws.environment()}


def _format_for_shell(aws: LocalAws, variables: Mapping[str, str]) -> str:
    """Return lines to paste or to `eval`; every other printed line is a comment."""
    lines = [] if aws.most_containers else [_NO_CONTAINERS]
    lines += ["# evaluate these lines in a shell: cdk, boto3, and aws then use the local AWS"]
    others = sorted({*os.environ} - {*variables})
    lines += [f"unset {name}" for name in others if _LEAD_ELSEWHERE.match(name)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return "\n".join(lines)
