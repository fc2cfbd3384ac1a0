"""`servable-local up | status | down`: the local AWS without the command `servable`, which shows the same."""

import argparse
import json
import math
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from servable_local.aws.clock import SECONDS_PER_MINUTE
from servable_local.aws.lifecycle import LocalAwsStartError, down, status, up
from servable_local.aws.local_aws import LocalAws
from servable_local.terminal import escape_output

DONE, FOUND_PROBLEMS, MISSING = 0, 1, 2
_MOST_CONTAINERS = 64


def started(
    program: str,
    *,
    port: int = 0,
    minute: float = SECONDS_PER_MINUTE,
    containers: int = 1,
    folder: Path | None = None,
    as_json: bool = False,
) -> str:
    """Start the local AWS and return the text that `{program} up` prints. Raises `LocalAwsStartError`."""
    aws = up(port=port, folder=folder, seconds_per_minute=minute, most_containers=containers)
    runs = f"the local AWS already runs at {aws.url} (process {aws.pid})"
    if aws.already_up and minute not in (SECONDS_PER_MINUTE, aws.seconds_per_minute):
        raise LocalAwsStartError(
            f"{runs} with a minute of {aws.seconds_per_minute:g} s; "
            f"run `{program} down` first to get one of {minute:g} s"
        )
    if port and aws.port != port:
        raise LocalAwsStartError(f"{runs}; run `{program} down` first to get port {port}")
    if as_json:
        return _json(_described(aws) | {"already_up": aws.already_up})
    already = ", already up" if aws.already_up else ""
    return (
        f"# local AWS at {aws.url}, process {aws.pid}{already}\n"
        f"# one minute of its alarms and deployments lasts {aws.seconds_per_minute:g} s\n"
        f"{_for_the_shell(program, aws)}"
    )


def shown(program: str, *, folder: Path | None = None, as_json: bool = False) -> tuple[str, bool]:
    """The text that `status` prints, and whether the local AWS runs."""
    aws = status(folder=folder)
    if as_json:
        return _json(
            {"up": False} if aws is None else {"up": True} | _described(aws)
        ), aws is not None
    if aws is None:
        return f"local AWS: not running; `{program} up` starts it", False
    said = f"# local AWS at {aws.url}, process {aws.pid}, since {aws.started}"
    return f"{said}\n{_for_the_shell(program, aws)}", True


def stopped(*, folder: Path | None = None, as_json: bool = False) -> str:
    """End the local AWS and return the text that `down` prints."""
    ended = down(folder=folder)
    if as_json:
        return _json({"ended": ended})
    if not ended:
        return f"local AWS: not running for {(folder or Path.cwd() / '.servable').parent}"
    if not os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://127.0.0.1:"):
        return "local AWS: stopped"
    return (
        "local AWS: stopped; this terminal's AWS variables still name it: open another terminal, or "
        "start it here again"
    )


def main(words: Sequence[str] | None = None) -> int:
    """The console script `servable-local`."""
    escape_output()
    given = parser().parse_args(words)
    options = {key: value for key, value in vars(given).items() if key != "command"}
    try:
        if given.command == "up":
            print(started("servable-local", **options))
        elif given.command == "down":
            print(stopped(**options))
        else:
            text, runs = shown("servable-local", **options)
            print(text)
            return DONE if runs else FOUND_PROBLEMS
    except (LocalAwsStartError, OSError) as error:
        print(f"servable-local {given.command}: {error}", file=sys.stderr)
        return FOUND_PROBLEMS
    except ModuleNotFoundError as error:
        print(f"servable-local {given.command}: {error}", file=sys.stderr)
        return MISSING
    except KeyboardInterrupt:
        return 130
    return DONE


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    program = argparse.ArgumentParser(
        prog="servable-local",
        description="A local AWS for cdk, boto3 and the AWS CLI; its state is in .servable of this folder.",
    )
    commands = program.add_subparsers(dest="command", required=True)
    start = commands.add_parser("up", help="Start it, unless it runs; it stays until `down`.")
    start.add_argument(
        "--port", type=_number(int, 0, 65535), default=0, help="Default: any free one."
    )
    start.add_argument(
        "--minute",
        type=_number(float, 0.1, 60.0),
        default=SECONDS_PER_MINUTE,
        help="Duration of one minute of alarms and deployments, in seconds (default: 60).",
    )
    start.add_argument(
        "--containers",
        type=_number(int, 1, _MOST_CONTAINERS),
        default=1,
        help="Maximum number of containers per variant; further instances are only counted.",
    )
    show = commands.add_parser(
        "status", help="Show whether it runs, and where. Exit code 1 if not."
    )
    stop = commands.add_parser("down", help="Stop it, and delete everything deployed to it.")
    for each in (start, show, stop):
        each.add_argument("--json", action="store_true", dest="as_json", help="Print JSON.")
    return program


def _number(kind: Callable[[str], float], least: float, most: float) -> Callable[[str], float]:
    """Reads an option's value. Raises ArgumentTypeError for one outside of the range."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")
        return value

    return read


def _described(aws: LocalAws) -> dict[str, Any]:
    return {
        "url": aws.url,
        "port": aws.port,
        "pid": aws.pid,
        "started": aws.started,
        "seconds_per_minute": aws.seconds_per_minute,
        "environment": aws.environment(),
    }


def _for_the_shell(program: str, aws: LocalAws) -> str:
    """Return lines to paste or to `eval`; every other printed line is a comment."""
    lines = [f'# paste these, or eval "$({program} up)": cdk, boto3 and aws then use the local AWS']
    given = aws.environment()
    lines += [f"unset {name}" for name in sorted(os.environ) if _stands_in_the_way(name, given)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in given.items()]
    return "\n".join(lines)


def _stands_in_the_way(name: str, given: Mapping[str, str]) -> bool:
    """Whether clients would read this variable before ours, or send it with our key."""
    whole = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN")
    others = ("AWS_ENDPOINT_URL_", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
    return name not in given and (name in whole or name.startswith(others))


def _json(value: Any) -> str:
    return json.dumps(value, indent=2)
