"""`servable cost ENV [--against REF]`: what it costs, and what a change costs."""

import json
from collections.abc import Iterator

import click

from infra.policy.sizing import HOURS_PER_MONTH
from servable.cost.cost import (
    EXAMPLE_SECONDS,
    NOT_INCLUDED,
    UNKNOWN,
    WHICH,
    Cost,
    VariantCost,
    Which,
    difference,
)
from servable.cost.cost import cost as cost_of
from servable.plan.revision import against as at_revision
from servable.project import ENVIRONMENTS, one_environment, project


@click.command()
@click.argument("environment", metavar="ENV")
@ENVIRONMENTS
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="One key, for this run.")
@click.option("--against", metavar="REF", help="The git revision to compare with.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def cost(
    environment: str, folder: str, sets: tuple[str, ...], against: str | None, as_json: bool
) -> int:
    """What ENV's instances cost by the hour, the month and the million predictions."""
    loaded, files = one_environment(environment, folder, sets)
    assert loaded.environment is not None  # one_environment has looked
    now, then = cost_of(loaded.name, loaded.environment), None
    if against is not None:
        root, _ = project(folder)
        (compared,) = at_revision([loaded], root, files, against)
        then = cost_of(loaded.name, compared.before) if compared.before else None
    if as_json:
        said = now.as_json()
        if against is not None:
            said["against"] = {
                "revision": against,
                "difference": None if then is None else difference(now, then),
                "then": None if then is None else then.as_json(),
            }
        click.echo(json.dumps(said, indent=2))
        return 0
    _show(now)
    if then is not None:
        click.echo(f"against {against}: {difference(now, then)}")
    elif against is not None:
        click.echo(f"against {against}: the file is new, or could not be read then")
    return 0


_WORDS = dict(zip(WHICH, ("at min", "at max", "during an update at max"), strict=True))


def _show(found: Cost) -> None:
    for one in found.variants:
        click.echo(f"{found.environment}, {one.variant}: {_priced(one)} ({one.price_of})")
        for line in _per_million(one):
            click.echo(f"  {line}")
    click.echo()
    for which, words in _WORDS.items():
        hour, month = found.usd_per_hour(which), found.usd_per_month(which)
        if hour is None or month is None:
            said = "unknown price"
        else:
            said = f"${hour:9,.2f}/hour  ${month:12,.0f}/month of {HOURS_PER_MONTH} h"
        million = found.usd_per_million_predictions(which)
        each = "" if million is None else f"  ${million:.2f} per million predictions"
        click.echo(f"{words:24} {_counted(found, which)}  {said}{each}")
    if found.unknown:
        click.echo(f"without {', '.join(found.unknown)}: {UNKNOWN}")
    click.echo(NOT_INCLUDED)


def _priced(one: VariantCost) -> str:
    if one.serverless is None:
        hour, least = one.usd_per_instance_hour, one.least_usd_per_instance_hour
        if hour is None:
            return f"{one.instance_type}, unknown price"
        if least != hour:
            return f"{one.instance_type}, ${least:g} (at min) to ${hour:g}/h (at max)"
        return f"{one.instance_type}, ${hour:g}/h"
    said = f"serverless of {one.serverless.memory_mib} MiB, paid by use"
    if one.usd_per_second is None:
        return f"{said}: unknown price"
    # As people write it: 6e-05 is no price.
    price = f"{one.usd_per_second:.9f}".rstrip("0")
    return f"{said}: ${price} per second of answering"


def _per_million(one: VariantCost) -> Iterator[str]:
    if one.serverless is not None:
        if one.usd_per_million_of_example is not None:
            yield (
                f"${one.usd_per_million_of_example:.2f} per million predictions for each "
                f"{EXAMPLE_SECONDS * 1000:g} ms that one takes, and ${one.usd_per_gb_processed:g} "
                "per GB of requests and answers"
            )
        if one.serverless.provisioned_concurrency:
            yield (
                f"and what keeps {one.serverless.provisioned_concurrency} to "
                f"{one.serverless.most_provisioned} containers warm: unknown price"
            )
    elif one.usd_per_million_predictions is not None:
        safe = one.usd_per_million_predictions / (one.safety_factor or 1)
        yield (
            f"${one.usd_per_million_predictions:.2f} per million predictions, at "
            f"{one.max_rps_per_instance:g} requests/s on an instance; ${safe:.2f} at the "
            f"{one.safety_factor:g} of it where scaling keeps it"
        )
    elif one.max_rps_per_instance is None and not one.shadow:
        yield "per million predictions: not known without scaling.max_rps_per_instance"


def _counted(found: Cost, which: Which) -> str:
    """How many, in a column of its own."""
    if found.paid_by_use:
        most = sum(one.serverless.max_concurrency for one in found.variants if one.serverless)
        return "   nobody asks" if which == "min_instances" else f"{most:4} all busy "
    return f"{sum(getattr(one, which) for one in found.variants):4} instances"
