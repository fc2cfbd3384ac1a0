"""`servable conformance`: compare a container's or endpoint's answers with those of the AWS image."""

import json
import tomllib
from pathlib import Path

import click
from pydantic import TypeAdapter

from servable.conformance.conformance import (
    ConformanceReport,
    Reasons,
    agreement_percent,
    report_of,
)
from servable.conformance.observed_cases import Agreement, ContainerSetup, cases, containers
from servable.conformance.prepare import MODELS_PATH, asking, prepare, start_script
from servable.conformance.targets import TargetError
from servable.findings import styled_echo
from servable.verdict import EXIT_CODES

VERSIONS = ("2.20", "2.19")
SHOWN_DIFFERENCES = 20
REMEDY = "`servable conformance --prepare FOLDER` makes it, and says how to start it"
LOCAL_ONLY = (
    "Servable's local container answered, not the image: the result says that the local container "
    "answers as the image was observed to, and nothing about an image or SageMaker."
)


@click.command()
@click.option("--url", help="Address of the container without code, or of such an endpoint.")
@click.option("--code-url", help='Address of the container with handler = "servable".')
@click.option("--at", multiple=True, metavar="NAME=URL", help="Address of another container.")
@click.option(
    "--tensorflow",
    type=click.Choice(VERSIONS),
    default=VERSIONS[0],
    show_default=True,
    help="Version of the image; 2.19 also stands for earlier ones.",
)
@click.option(
    "--prepare",
    "prepared",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write models, code, start.sh and ask.sh into this folder; send no request.",
)
@click.option(
    "--models-path",
    default=MODELS_PATH,
    show_default=True,
    help="Folder of the models inside the multi-model container.",
)
@click.option(
    "--component",
    help="Inference component that answers, by its name in SageMaker, for an endpoint that has some.",
)
@click.option(
    "--excused",
    "excuses_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of differences that you accept: [GROUP] CASE = reason.",
)
@click.option(
    "--wait-seconds",
    type=float,
    default=120.0,
    show_default=True,
    help="Time to wait for each /ping, in seconds.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def conformance(
    url: str | None,
    code_url: str | None,
    at: tuple[str, ...],
    tensorflow: str,
    prepared: Path | None,
    models_path: str,
    component: str | None,
    excuses_file: Path | None,
    wait_seconds: float,
    as_json: bool,
) -> int:
    """Send the recorded requests to containers or endpoints, and compare their answers with the image's.

    Exit 0: the answers are the image's; 1: they differ; 2: a container does not answer; 3: one does not
    serve what the requests were recorded with. --prepare writes it: docs/conformance.md.
    """
    setups = containers(case for case in cases() if case.image == tensorflow)
    if prepared is not None:
        _prepare(setups, prepared)
        return 0
    addresses = _addresses(setups, tensorflow, [("plain", url), ("handler", code_url)], at)
    reasons = _reasons(excuses_file)
    try:
        report = report_of(
            setups,
            addresses,
            models_path=models_path,
            component=component,
            wait_seconds=wait_seconds,
            reasons=reasons,
        )
    except (TargetError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(report.as_json(), indent=2))
    else:
        _show(report)
    return EXIT_CODES[report.verdict]


def _reasons(file: Path | None) -> Reasons:
    """Return what the caller accepts. Raises `click.UsageError`."""
    try:
        text = "" if file is None else file.read_text(encoding="utf-8")
        return TypeAdapter(dict[str, dict[str, str]]).validate_python(tomllib.loads(text))
    except ValueError as error:
        raise click.UsageError(
            f'--excused {file}: {error}; expected tables as ["2.20 plain"] with "CASE" = "reason"'
        ) from None


def _prepare(setups: list[ContainerSetup], folder: Path) -> None:
    prepare(setups, folder)
    (folder / "start.sh").write_text(start_script(setups), encoding="utf-8")
    # Further options are passed on.
    (folder / "ask.sh").write_text(f'#!/bin/sh\nexec {asking(setups)} "$@"\n', encoding="utf-8")
    click.echo(f"{folder}: models and code of {len(setups)} containers, start.sh and ask.sh")
    click.echo("next, with Docker and the image:")
    click.echo(f"  sh {folder / 'start.sh'} IMAGE")
    click.echo(f"  sh {folder / 'ask.sh'}          # which is:")
    click.echo(f"  {asking(setups)}")


def _addresses(
    setups: list[ContainerSetup],
    tensorflow: str,
    pairs: list[tuple[str, str | None]],
    at: tuple[str, ...],
) -> dict[str, str]:
    """Name of a setup -> address. Raises `click.UsageError`."""
    names = [container.name for container in setups]
    for option in at:
        name, equals, url = option.partition("=")
        if not equals:
            raise click.UsageError(f"--at {option}: expected NAME=URL")
        pairs.append((name, url))
    addresses = {name: url for name, url in pairs if url}
    if not addresses:
        raise click.UsageError("give --url, --code-url or --at, or write the models with --prepare")
    for name in addresses:
        if name not in names:
            allowed = ", ".join(names)
            raise click.UsageError(
                f"the table of {tensorflow} has no container {name!r}; allowed: {allowed}"
            )
    return addresses


def _show(report: ConformanceReport) -> None:
    for name, target in report.targets.items():
        click.echo(f"{name}: {target.url} ({target.server or 'no Server header'})")
    width = max((len(group.group) for group in report.groups), default=5)
    heads = [*(kind.value for kind in Agreement), "excused", "not asked"]
    click.echo("\n" + f"{'group':{width}}  " + "  ".join(f"{head:>11}" for head in heads))
    for group in report.groups:
        numbers = [*group.counts.values(), group.excused, group.unasked]
        click.echo(f"{group.group:{width}}  " + "  ".join(f"{number:11,}" for number in numbers))
    if any(group.excused for group in report.groups):
        click.echo("excused: a list names these answers, each with the reason why it may differ")
    if report.unasked:
        click.echo(f"containers not asked: {', '.join(report.unasked)}; give --at NAME=URL")
    for difference in report.differences[:SHOWN_DIFFERENCES]:
        styled_echo(str(difference), fg="red")
    if (more := len(report.differences) - SHOWN_DIFFERENCES) > 0:
        styled_echo(f"and {more:,} more differences: --json lists all", fg="red")
    for name, checks in report.contract.items():
        held = sum(seen is None for seen in checks.values())
        click.echo(f"contract, {name}: {held} of {len(checks)} hold")
        for sentence, seen in checks.items():
            if seen is not None:
                styled_echo(f"  {name} does not: {sentence} ({seen})", fg="red")
    for name, lacks in report.missing.items():
        styled_echo(f"{name}: not asked: it lacks {', '.join(lacks)}; {REMEDY}", fg="red")
    percent = agreement_percent(report.groups)
    agreement = "nothing was compared" if percent is None else f"{percent:.1f} % agree"
    click.echo(f"\n{report.verdict}: {agreement}")
    if report.is_local:
        styled_echo(LOCAL_ONLY, fg="yellow")
