"""The endpoint's dashboard: alarms, traffic, latency, errors, utilization and cost."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.catalog.metrics import load_log_filters
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.variant_graphs import VariantGraphs, build_search, make_axis
from infra.constructs.monitoring.watched_endpoint import PERIOD_SECONDS, Watchable, WatchedEndpoint
from infra.parameters.monitoring import MILLISECONDS, PERCENT, Unit

COLUMNS = 24  # CloudWatch's
Row = Sequence[cloudwatch.IWidget]
MOST_SIDE_BY_SIDE = 4  # a narrower graph has no room for its legend


class EndpointDashboard(Construct):
    """A dashboard in the environment file's units, milliseconds and percent.

    With one variant a row has two graphs; with several it has the same graph of each variant.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint: Watchable,
        alarms: EndpointAlarms,
        guarded: bool = False,
        below: Sequence[Row] = (),
    ) -> None:
        """endpoint: The endpoint, of this app or imported.
        alarms: Its alarms, whose states and thresholds are shown.
        guarded: Whether an `EndpointRollout` watches updates, so that old and new fleet are shown
            separately. Default: False.
        below: Further rows, such as `BatchTransform.rows`. Default: none.
        """
        super().__init__(scope, construct_id)
        watched = endpoint.watched
        status = cloudwatch.AlarmStatusWidget(
            title=f"{watched.name}: alarms",
            alarms=[alarms.objective, *alarms.by_name.values()],
            width=COLUMNS,
        )
        rows: list[Row] = [[status], *_build_variant_rows(watched, alarms)]
        if guarded:
            rows.append([_build_fleet_graph(watched.name, *shown) for shown in BY_FLEET])
        if watched.log_is_counted:
            # The counters of the container's log, for all variants together.
            refused = alarms.of(None, "queue-refused")
            counters = cloudwatch.GraphWidget(
                title=f"{watched.name}: counted in the log, per minute",
                width=COLUMNS,
                left=[watched.build_log_metric(each.metric) for each in load_log_filters()],
                left_annotations=[refused.line] if refused else None,
                left_y_axis=make_axis("lines"),
            )
            rows.append([counters])
        cloudwatch.Dashboard(
            self,
            "Resource",
            # Dashboards of all regions of an account share one list.
            dashboard_name=f"{watched.name}-{watched.region}",
            widgets=[*rows, *below],
        )


def _build_variant_rows(endpoint: WatchedEndpoint, alarms: EndpointAlarms) -> list[Row]:
    # CloudWatch keeps shorter periods for three hours only, and a dashboard shows more.
    endpoint = replace(endpoint, shortest_period_seconds=PERIOD_SECONDS)
    variants, drawn = endpoint.variants, []
    for at in range(0, len(variants), MOST_SIDE_BY_SIDE):
        group = variants[at : at + MOST_SIDE_BY_SIDE]
        width = COLUMNS // (2 if len(variants) == 1 else len(group))
        draw = partial(VariantGraphs, endpoint=endpoint, alarms=alarms, width=width)
        drawn.append([draw(variant=each).graphs for each in group])
    if len(variants) == 1:
        widgets = list(drawn[0][0].values())
        return [widgets[at : at + 2] for at in range(0, len(widgets), 2)]
    # A variant with GPUs has a graph that another lacks, and one with instance pools lacks one.
    return [
        row
        for name in dict.fromkeys(name for group in drawn for graphs in group for name in graphs)
        for group in drawn
        if (row := [graphs[name] for graphs in group if name in graphs])
    ]


# These metrics have the configuration's name as a dimension, and only during a guarded update. They
# need a search expression, because the name of the next configuration is not known yet.
DIMENSIONS = ("EndpointConfigName", "EndpointName", "VariantName")
# p99 latency and 5xx share: metric, statistic, title, unit
BY_FLEET = (
    ("ModelLatency", "p99", "p99 latency", MILLISECONDS),
    ("Invocation5XXErrors", "Average", "5xx", PERCENT),
)


def _build_fleet_graph(
    endpoint_name: str, metric: str, statistic: str, title: str, unit: Unit
) -> cloudwatch.GraphWidget:
    """Return a graph of the metric by configuration, which is empty while no update runs."""
    return cloudwatch.GraphWidget(
        title=f"during an update, by configuration: {title} ({unit.symbol})",
        width=COLUMNS // 2,
        left=[build_search(metric, DIMENSIONS, statistic, unit, EndpointName=endpoint_name)],
        left_y_axis=make_axis(unit.symbol),
    )
