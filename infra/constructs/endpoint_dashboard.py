"""One screen for an endpoint: is it well, what is it asked, how full is it, what does it cost."""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.catalog.log_filters import log_filters
from infra.constructs.capacity_graphs import HEIGHT
from infra.constructs.endpoint_alarms import EndpointAlarms
from infra.constructs.fleet_graphs import fleet_graphs
from infra.constructs.variant_graphs import VariantGraphs
from infra.constructs.watched_endpoint import WatchedEndpoint

COLUMNS = 24  # CloudWatch's
MOST_SIDE_BY_SIDE = 4  # a narrower graph has no room for its legend


class EndpointDashboard(Construct):
    """Milliseconds and percent, as the environment file says them.

    One variant: two graphs in a row. Several: the same graph of each, side by side.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: WatchedEndpoint,
        alarms: EndpointAlarms,
        guarded: bool = False,
    ) -> None:
        """`guarded`: updates are watched, so the old and the new fleet are shown apart."""
        super().__init__(scope, construct_id)
        status = cloudwatch.AlarmStatusWidget(
            title=f"{endpoint.name}: alarms",
            alarms=[alarms.objective, *(one.alarm for one in alarms.by_name.values())],
            width=COLUMNS,
            height=3,
        )
        graphs = [
            VariantGraphs(endpoint=endpoint, variant=one, alarms=alarms)
            for one in endpoint.variants
        ]
        rows: list[Sequence[cloudwatch.IWidget]] = [[status], *_rows(graphs)]
        if guarded:
            rows.append(fleet_graphs(endpoint.name, width=COLUMNS // 2))
        if endpoint.log_is_counted:
            rows.append([_log(endpoint, alarms)])
        cloudwatch.Dashboard(
            self,
            "Resource",
            # Dashboards of all regions of an account share one list.
            dashboard_name=f"{endpoint.name}-{endpoint.region}",
            widgets=rows,
        )


def _rows(variants: Sequence[VariantGraphs]) -> list[Sequence[cloudwatch.IWidget]]:
    if len(variants) == 1:
        made = [graph(COLUMNS // 2) for graph in variants[0].all]
        return [made[at : at + 2] for at in range(0, len(made), 2)]
    groups = [
        variants[at : at + MOST_SIDE_BY_SIDE] for at in range(0, len(variants), MOST_SIDE_BY_SIDE)
    ]
    return [
        [variant.all[number](COLUMNS // len(group)) for variant in group]
        for number in range(len(variants[0].all))
        for group in groups
    ]


def _log(endpoint: WatchedEndpoint, alarms: EndpointAlarms) -> cloudwatch.IWidget:
    """What the log says of the container, of all variants together."""
    refused = alarms.of(None, "queue-refused")
    return cloudwatch.GraphWidget(
        title=f"{endpoint.name}: counted in the log, per minute",
        left=[endpoint.metrics.counted_in_log(one.metric) for one in log_filters()],
        left_annotations=[refused.line] if refused else [],
        left_y_axis=cloudwatch.YAxisProps(label="lines", min=0, show_units=False),
        width=COLUMNS,
        height=HEIGHT,
    )
