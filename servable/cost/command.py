"""`servable cost ENV [--against REF]`: show the cost of an environment and of a change."""

import datetime
import json
from collections.abc import Iterator, Mapping

import click

from infra.catalog.instances import load_instances
from infra.parameters.endpoint import Asynchronous
from infra.parameters.finding import suggest_name
from infra.policy.sizing import HOURS_PER_MONTH
from servable.console.extras import convert_import_error
from servable.cost.cost import (
    EXAMPLE_SECONDS,
    MOST_SAVED_SHARE,
    NOT_INCLUDED,
    SERVERLESS,
    UNKNOWN,
    BatchCost,
    Cost,
    DataCost,
    VariantCost,
    Which,
    compute_cost,
    describe_difference,
)
from servable.cost.expected import ExpectedMonth, compute_expected_month
from servable.project.completion import ENVIRONMENT, revision_option
from servable.project.environments import Project, pass_project
from servable.project.revision import attach_revision


@click.command()
@ENVIRONMENT
@pass_project
@revision_option(help="Git revision to compare with.")
@click.option(
    "--refresh",
    is_flag=True,
    help="First read the instance prices from AWS and write them to the file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cost(
    project: Project, environment: str, against: str | None, refresh: bool, as_json: bool
) -> int:
    """Show what ENV costs per hour, per month, and per million predictions."""
    if refresh:
        loaded = project.load_valid(environment)
        try:
            from servable.cost.price_list import refresh_prices  # it imports boto3
        except ModuleNotFoundError as missing:
            raise convert_import_error(missing, "servable cost --refresh") from None
        for line in refresh_prices(loaded, project.files / f"{loaded.name}.toml"):
            click.echo(line, err=True)
    loaded = project.load_valid(environment)
    try:
        now, then = compute_cost(loaded.name, loaded.environment), None
        month = compute_expected_month(loaded.environment, now)
    except ValueError as wrong:  # the day of [traffic], or a policy, cannot be read
        raise click.ClickException(f"{loaded.file}: {wrong}") from None
    if against is not None:
        (compared,) = attach_revision([loaded], project, against)
        then = compute_cost(loaded.name, compared.before) if compared.before else None
    difference = then and describe_difference(now, then)
    if as_json:
        output = now.as_json() | {"expected": month and month.as_json()}
        if against is not None:
            compared_json = {"difference": difference, "then": then and then.as_json()}
            output["against"] = {"revision": against, **compared_json}
        click.echo(json.dumps(output, indent=2))
    else:
        _print_cost(now, month, loaded.environment.asynchronous)
        if against is not None:
            change = difference or "the file is new, or could not be read at that revision"
            click.echo(f"against {against}: {change}")
    known = load_instances()
    unknown = [name for name in now.unpriced_names if name not in (SERVERLESS, *known)]
    for name in unknown:
        problem = f"{name!r} is unknown and has no price; {suggest_name(name, known)}"
        click.echo(f"servable cost: {problem}", err=True)
    return int(bool(unknown))


_WORDS: Mapping[Which, str] = {
    "min_instances": "at min",
    "max_instances": "at max",
    "max_during_update": "during an update at max",
}


def _print_cost(costs: Cost, expected: ExpectedMonth | None, queue: Asynchronous | None) -> None:
    for variant in costs.variants:
        price = f"{_describe_price(variant)} ({variant.price_of})"
        click.echo(f"{costs.environment}, {variant.variant}: {price}")
        for line in (*_describe_cost_per_million(variant), *_describe_sleep_cost(variant)):
            click.echo(f"  {line}")
    for batch in costs.batches:
        run = f"{_describe_run(batch)} ({batch.price_of})"
        click.echo(f"{costs.environment}, batch {batch.batch}: {run}")
    click.echo()
    without = ", ".join(costs.unpriced_names)
    for which, words in _WORDS.items() if costs.variants else ():
        hour, month = costs.compute_usd_per_hour(which), costs.compute_usd_per_month(which)
        price = "unknown price"
        if hour is not None and month is not None:
            price = f"${hour:9,.2f}/hour  ${month:12,.0f}/month of {HOURS_PER_MONTH} h"
        if (million := costs.compute_usd_per_million(which)) is not None:
            price += f"  ${million:.2f} per million predictions"
        if without and hour is not None:
            price += f"  without {without}"
        click.echo(f"{words:24} {_format_count(costs, which)}  {price}")
    if costs.variants:
        click.echo(f"{'data in and out':24}  {_describe_data_cost(costs.data)}")
    if queue is not None:
        click.echo(
            f"{'requests in S3':24}  asynchronous requests leave their bodies, responses, and failures in S3 "
            f"for {queue.keep_days} days ($0.023 to $0.025 per GB and month)"
        )
    for line in (*_describe_monthly_costs(costs), *_describe_expected_month(expected)):
        click.echo(line)
    refresh = f"servable cost {costs.environment} --refresh"
    if without:
        click.echo(f"without {without}: {UNKNOWN}; to set it in the file:")
        for key in costs.missing_keys:
            click.echo(f"  {key} = USD")
        click.echo(f"or read instances' prices from AWS: {refresh}")
    if (old := _find_outdated_price_date(costs)) is not None:
        written = "writes current AWS prices to the file"
        click.echo(f"prices of {old} are more than a year old: `{refresh}` {written}")
    click.echo(NOT_INCLUDED)


def _describe_monthly_costs(costs: Cost) -> Iterator[str]:
    """Yield the monthly charges besides instances, the total, and the Savings Plan minimum."""
    for variant in costs.variants:
        if (volume := variant.volume) is not None:
            yield (
                f"{'volumes, ' + variant.variant:24}  ${volume.usd_per_month:.2f}/month for each instance: "
                f"{volume.count:g} GB at ${volume.usd_each:g} ({volume.price_of})"
            )
    several = ", ".join(
        f"{item.count:g} {item.name}{'s' if item.count > 1 else ''} ${item.usd_per_month:.2f}"
        for item in costs.standing
    )
    month = costs.standing_usd_per_month
    stays = UNKNOWN if month is None else f"about ${month:.2f}/month stays: {several}"
    yield f"{'when nothing runs':24}  {'not known: ' if month is None else ''}{stays}"
    for which in ("min_instances", "max_instances"):
        in_all, alone = costs.compute_total_usd_per_month(which), costs.compute_usd_per_month(which)
        if in_all is not None and alone is not None:
            saved = in_all - MOST_SAVED_SHARE * alone
            yield (
                f"{'all but data, ' + _WORDS[which]:24}  ${in_all:,.2f}/month; at least ${saved:,.2f} "
                "with a SageMaker Savings Plan (1 or 3 years; at most "
                f"{MOST_SAVED_SHARE:.0%} off instances and serverless, by type)"
            )


def _describe_expected_month(month: ExpectedMonth | None) -> Iterator[str]:
    """Yield a line for the expected month, and one for each part with its assumption."""
    if month is None:
        yield f"{'expected month':24}  not known: set peak_rps, or day, in [traffic]"
        return
    least = "at least " if month.missing_names else ""
    without = f", without {', '.join(month.missing_names)}" if month.missing_names else ""
    total = f"{least}${month.usd:,.2f} for {month.requests:,.0f} requests{without}"
    yield f"{'expected month':24}  {total}: {month.day}"
    for line in month.lines:
        usd = "not known" if line.usd is None else f"${line.usd:,.2f}"
        yield f"{'  ' + line.name:32}  {usd}: {line.assumption}"


def _find_outdated_price_date(costs: Cost) -> str | None:
    """Return the date of the oldest price of a variant if it is more than a year old."""
    today = datetime.datetime.now(datetime.UTC)
    dates = (variant.priced_on or "" for variant in costs.variants)
    old = (date for date in dates if date[:1].isdigit())
    return min((date for date in old if date[:7] < f"{today.year - 1}-{today:%m}"), default=None)


def _describe_data_cost(data: DataCost) -> str:
    if data.usd_per_gb is None:
        return f"not counted: {data.price_of}"
    price = f"${data.usd_per_gb:g} per GB ({data.price_of})"
    if data.usd_per_million_predictions is None:
        missing = " and ".join(data.missing_keys)
        are = "are" if " and " in missing else "is"
        return f"not counted: {missing} {are} not set; the price is {price}"
    return (
        f"plus at most ${data.usd_per_million_predictions:.2f} per million predictions, of "
        f"{data.request_bytes:,} bytes in and {data.answer_bytes:,} out; {price}"
    )


def _describe_price(variant: VariantCost) -> str:
    if variant.serverless is None:
        hour, least = variant.usd_per_instance_hour, variant.least_usd_per_instance_hour
        if hour is None:
            return f"{variant.instance_type}, unknown price"
        if least != hour:
            return f"{variant.instance_type}, ${least:g} (at min) to ${hour:g}/h (at max)"
        return f"{variant.instance_type}, ${hour:g}/h"
    serverless = f"serverless of {variant.serverless.memory_mib} MiB, paid by use"
    if variant.usd_per_second is None:
        return f"{serverless}: unknown price"
    # Without an exponent: 6e-05 isn't readable as a price.
    price = f"{variant.usd_per_second:.9f}".rstrip("0")
    return f"{serverless}: ${price} per second of processing"


def _describe_run(batch: BatchCost) -> str:
    what = f"{batch.instances} x {batch.instance_type}"
    hour, late = batch.usd_per_hour, batch.compute_usd_per_run(batch.late_minutes)
    longest = batch.compute_usd_per_run(batch.max_minutes)
    if hour is None or late is None or longest is None:
        return f"{what}, unknown price"
    return (
        f"{what}, ${hour:.2f}/hour after the instances start: ${late:.2f} for a run that "
        f"is late ({batch.late_minutes} min), at most ${longest:,.2f} ({batch.max_minutes:,} min); "
        "priced as an endpoint"
    )


def _describe_cost_per_million(variant: VariantCost) -> Iterator[str]:
    if variant.serverless is not None:
        if (usd := variant.usd_per_million_of_example) is not None:
            yield f"${usd:.2f} per million predictions at {EXAMPLE_SECONDS * 1000:g} ms each"
        if variant.serverless.provisioned_concurrency:
            price = "unknown price"
            if (warm := variant.usd_per_warm_second) is not None:
                price = f"${warm:.9f}".rstrip("0") + " per second each"
            kept = variant.serverless.provisioned_concurrency, variant.serverless.provisioned_limit
            yield f"plus keeping {kept[0]} to {kept[1]} containers warm: {price}"
    elif (usd := variant.usd_per_million_predictions) is not None:
        safe = usd / (variant.safety_factor or 1)
        yield (
            f"${usd:.2f} per million predictions, at {variant.max_rps_per_instance:g} requests/s per "
            f"instance; ${safe:.2f} at the scaling target, {variant.safety_factor:g} of that rate"
        )
    elif variant.max_rps_per_instance is None and not variant.shadow:
        yield "cost per million predictions: unknown; set scaling.max_rps_per_instance"


def _describe_sleep_cost(variant: VariantCost) -> Iterator[str]:
    """Yield the stated day's cost of a variant that scales to zero, with and without sleep."""
    minutes, sleep = variant.sleep_after_minutes, variant.sleep
    if minutes is None:
        return
    if sleep is None:
        yield (
            f"it scales to zero after {minutes} min: between zero, without requests, and max; the day "
            "is not stated; set profile and peak_rps, or day, in [traffic]"
        )
        return
    hours, awake = sleep.instance_hours, sleep.instance_hours_without_sleep
    usd = [sleep.compute_usd_per_month(each) for each in (hours, awake)]
    prices = [f"${each:,.2f}" for each in usd if each is not None]
    dollars = "/month instead of ".join(prices) or "unknown price"
    yield (
        f"it scales to zero after {minutes} min: on days of [traffic], {hours:.1f} instance hours instead "
        f"of {awake:.1f} without sleep, {dollars}"
    )
    yield (
        f"{sleep.waiting_callers:,.0f} callers a day find no running copy and wait at most "
        f"{sleep.longest_wait_seconds / 60:.1f} min; {sleep.failed_callers:,.0f} fail after "
        f"endpoint.wake_seconds (assumed: a start of {sleep.start_seconds:g} s, metrics seen after "
        f"{sleep.metric_delay_seconds} s)"
    )


def _format_count(costs: Cost, which: Which) -> str:
    """Return the number of instances, or the load of a serverless endpoint, in a column's width."""
    if costs.is_paid_by_use:
        serverless = (variant.serverless for variant in costs.variants)
        most = sum(each.max_concurrency for each in serverless if each)
        return "   no requests" if which == "min_instances" else f"{most:4} all busy "
    count = sum(getattr(variant, which) for variant in costs.variants)
    return f"{count:4} {'instance ' if count == 1 else 'instances'}"
