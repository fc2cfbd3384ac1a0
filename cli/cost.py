"""`servable cost ENV [--against REF]`: what it costs, and what a change costs."""

import json

import click

from cli.environment import one_environment
from cli.project import project
from operations.cost import HOURS_PER_MONTH, NOT_INCLUDED, WHICH, Cost, difference
from operations.cost import cost as cost_of
from operations.revision import RevisionError
from operations.revision import against as at_revision


@click.command()
@click.argument("environment", metavar="ENV")
@click.option("--environments", "folder", default="environments", help="Folder of the files.")
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
        try:
            (compared,) = at_revision([loaded], root, files, against)
        except RevisionError as wrong:
            raise click.UsageError(f"--against {against}: {wrong}") from None
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
        price = one.usd_per_instance_hour
        shown = "unknown price" if price is None else f"${price:g}/h"
        click.echo(
            f"{found.environment}, {one.variant}: {one.instance_type}, {shown} ({one.price_of})"
        )
        if one.usd_per_million is not None:
            click.echo(
                f"  ${one.usd_per_million:.2f} per million predictions, at "
                f"{one.max_rps_per_instance:g} requests/s on an instance"
            )
        elif one.max_rps_per_instance is None:
            click.echo("  per million predictions: not known without scaling.max_rps_per_instance")
    click.echo()
    for which, words in _WORDS.items():
        count = sum(getattr(one, which) for one in found.variants)
        click.echo(
            f"{words:24} {count:4} instances  ${found.usd_per_hour(which):9,.2f}/hour  "
            f"${found.usd_per_month(which):12,.0f}/month of {HOURS_PER_MONTH} h"
        )
    if found.unknown:
        click.echo(f"without {', '.join(found.unknown)}: no source states a price")
    click.echo(NOT_INCLUDED)
