"""`servable conformance`: compare a container's or endpoint's answers with those of the AWS image."""

import json
from pathlib import Path

import click

from servable.conformance.conformance import GroupResult, agreement_percent, asked, counted
from servable.conformance.contract import failures
from servable.conformance.observed_cases import Agreement, ContainerSetup, cases, containers
from servable.conformance.prepare import MODELS_PATH, asking, prepare, start_script
from servable.conformance.targets import ContainerTarget, Target, TargetError, target_at
from servable.findings import styled_echo

VERSIONS = ("2.20", "2.19")
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
    "--least-percent",
    type=click.FloatRange(0, 100),
    default=99.0,
    show_default=True,
    help="Minimum agreement in percent; exit 1 below it.",
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
    least_percent: float,
    wait_seconds: float,
    as_json: bool,
) -> int:
    """Send the recorded requests to containers or endpoints, and compare their answers with the image's.

    --prepare writes the models that they have to serve. docs/conformance.md describes the steps.
    """
    wanted = containers(case for case in cases() if case.image == tensorflow)
    if prepared is not None:
        _prepare(wanted, prepared)
        return 0
    addresses = _addresses(wanted, tensorflow, [("plain", url), ("handler", code_url)], at)
    groups: list[GroupResult] = []
    contract: dict[str, dict[str, str | None]] = {}
    targets: dict[str, Target] = {}
    try:
        for container in wanted:
            if container.name not in addresses:
                continue
            target = target_at(addresses[container.name], models_path=models_path)
            target.wait(wait_seconds)
            targets[container.name] = target
            if isinstance(target, ContainerTarget) and not container.is_multi_model:
                contract[container.name] = failures(target)
            groups += counted(asked(target, container))
    except TargetError as error:
        raise click.ClickException(str(error)) from None
    percent = agreement_percent(groups)
    local_only = all(target.is_local for target in targets.values())
    unasked = [container.name for container in wanted if container.name not in targets]
    if as_json:
        output = {
            "tensorflow": tensorflow,
            "agreement_percent": round(percent, 2),
            "local_container_only": local_only,
            "targets": {name: [target.url, target.server] for name, target in targets.items()},
            "unasked": unasked,
            "groups": [group.as_json() for group in groups],
            "differences": [
                difference.as_json() for group in groups for difference in group.differences
            ],
            "contract": contract,
        }
        click.echo(json.dumps(output, indent=2))
    else:
        _show(groups, contract, targets, unasked)
        click.echo(f"\n{percent:.1f} % agree; required: at least {least_percent:g} %")
        if local_only:
            styled_echo(LOCAL_ONLY, fg="yellow")
    broken = any(seen for checks in contract.values() for seen in checks.values())
    return int(broken or percent < least_percent)


def _prepare(wanted: list[ContainerSetup], folder: Path) -> None:
    prepare(wanted, folder)
    (folder / "start.sh").write_text(start_script(wanted), encoding="utf-8")
    # Further options are passed on.
    (folder / "ask.sh").write_text(f'#!/bin/sh\nexec {asking(wanted)} "$@"\n', encoding="utf-8")
    click.echo(f"{folder}: models and code of {len(wanted)} containers, start.sh and ask.sh")
    click.echo("next, with Docker and the image:")
    click.echo(f"  sh {folder / 'start.sh'} IMAGE")
    click.echo(f"  sh {folder / 'ask.sh'}          # which is:")
    click.echo(f"  {asking(wanted)}")


def _addresses(
    wanted: list[ContainerSetup],
    tensorflow: str,
    pairs: list[tuple[str, str | None]],
    at: tuple[str, ...],
) -> dict[str, str]:
    """Name of a setup -> address. Raises `click.UsageError`."""
    names = [container.name for container in wanted]
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


def _show(
    groups: list[GroupResult],
    contract: dict[str, dict[str, str | None]],
    targets: dict[str, Target],
    unasked: list[str],
) -> None:
    for name, target in targets.items():
        click.echo(f"{name}: {target.url} ({target.server or 'no Server header'})")
    width = max(len(group.group) for group in groups)
    kinds = [kind.value for kind in Agreement]
    heads = [*kinds, "changed", "not asked"]
    click.echo("\n" + f"{'group':{width}}  " + "  ".join(f"{head:>11}" for head in heads))
    for group in groups:
        numbers = [*group.counts.values(), group.changed, group.unasked]
        click.echo(f"{group.group:{width}}  " + "  ".join(f"{number:11,}" for number in numbers))
    if any(group.changed for group in groups):
        click.echo(
            "changed: Servable's handler has been changed on purpose since then; not compared"
        )
    if unasked:
        click.echo(f"containers not asked: {', '.join(unasked)}; give --at NAME=URL")
    for group in groups:
        for difference in group.differences:
            styled_echo(str(difference), fg="red")
    for name, checks in contract.items():
        held = sum(seen is None for seen in checks.values())
        click.echo(f"contract, {name}: {held} of {len(checks)} hold")
        for sentence, seen in checks.items():
            if seen is not None:
                styled_echo(f"  {name} does not: {sentence} ({seen})", fg="red")
