"""How many instances of a variant answer, and what they cost an hour."""

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.catalog.prices import price
from infra.constructs.endpoint_metrics import PERIOD
from infra.constructs.watched_endpoint import WatchedEndpoint, WatchedVariant

HEIGHT = 6  # CloudWatch's own: 24 columns, rows of any height


def axis(label: str) -> cloudwatch.YAxisProps:
    return cloudwatch.YAxisProps(label=label, min=0, show_units=False)


def instances_graph(
    endpoint: WatchedEndpoint, variant: WatchedVariant, *, width: int
) -> cloudwatch.IWidget:
    """Between min and max. Empty in a minute without a request."""
    return cloudwatch.GraphWidget(
        title=f"{variant.name}: instances that answer, of {variant.instance_type}",
        left=[endpoint.metrics.instances(variant.name)],
        left_y_axis=axis("instances"),
        left_annotations=[
            cloudwatch.HorizontalAnnotation(value=number, label=f"{word} {number}")
            for word, number in _ends(variant)
        ],
        width=width,
        height=HEIGHT,
    )


def cost_graph(
    endpoint: WatchedEndpoint, variant: WatchedVariant, *, width: int
) -> cloudwatch.IWidget:
    """Of the instances that answer; words where no source states a price."""
    known = price(variant.instance_type or "", endpoint.region)
    if known is None:
        return cloudwatch.TextWidget(
            markdown=f"**{variant.name}: cost per hour**\n\nno price of {variant.instance_type} "
            "is known to infra/catalog/prices.json",
            width=width,
            height=HEIGHT,
        )
    count = endpoint.metrics.instances(variant.name)
    ends = [(word, number * known.usd_per_hour) for word, number in _ends(variant)]
    return cloudwatch.GraphWidget(
        title=f"{variant.name}: cost per hour (USD, {known.region}, {known.as_of})",
        left=[
            cloudwatch.MathExpression(
                expression=f"{count.expression} * {known.usd_per_hour:g}",
                using_metrics=count.using_metrics,
                label=f"{variant.name}: USD per hour",
                period=PERIOD,
            )
        ],
        left_y_axis=axis("USD per hour"),
        left_annotations=[
            cloudwatch.HorizontalAnnotation(value=round(usd, 3), label=f"{word}: {usd:.2f}")
            for word, usd in ends
        ],
        width=width,
        height=HEIGHT,
    )


def _ends(variant: WatchedVariant) -> list[tuple[str, int]]:
    return [("min", variant.min_instances), ("max", variant.max_instances)]
