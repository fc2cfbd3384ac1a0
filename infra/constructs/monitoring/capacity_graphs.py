"""How many instances of a variant answer, and what they cost an hour."""

from infra.catalog.prices import price
from infra.constructs.endpoint.watched_endpoint import WatchedEndpoint, WatchedVariant
from infra.constructs.monitoring.measured import Computed
from infra.constructs.monitoring.widget import Line, Side, Widget, graph, text


def instances_graph(endpoint: WatchedEndpoint, variant: WatchedVariant, *, width: int) -> Widget:
    """Between min and max. Empty in a minute without a request."""
    return graph(
        f"{variant.name}: instances that answer, of {variant.instance_type}",
        left=Side(
            label="instances",
            metrics=[endpoint.metrics.instances(variant.name)],
            lines=[Line(value=number, label=f"{word} {number}") for word, number in _ends(variant)],
        ),
        width=width,
    )


def cost_graph(endpoint: WatchedEndpoint, variant: WatchedVariant, *, width: int) -> Widget:
    """Of the instances that answer; words where no source states a price."""
    known = price(variant.instance_type or "", endpoint.region)
    if known is None:
        return text(
            f"**{variant.name}: cost per hour**\n\nno price of {variant.instance_type} "
            "is known to infra/catalog/prices.json",
            width=width,
        )
    count = endpoint.metrics.instances(variant.name)
    ends = [(word, number * known.usd_per_hour) for word, number in _ends(variant)]
    cost = Computed(
        expression=f"{count.expression} * {known.usd_per_hour:g}",
        using=count.using,
        label=f"{variant.name}: USD per hour",
    )
    return graph(
        f"{variant.name}: cost per hour (USD, {known.region}, {known.as_of})",
        left=Side(
            label="USD per hour",
            metrics=[cost],
            lines=[Line(value=round(usd, 3), label=f"{word}: {usd:.2f}") for word, usd in ends],
        ),
        width=width,
    )


def _ends(variant: WatchedVariant) -> list[tuple[str, int]]:
    return [("min", variant.min_instances), ("max", variant.max_instances)]
