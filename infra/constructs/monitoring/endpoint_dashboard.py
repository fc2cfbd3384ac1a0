"""The endpoint's dashboard: alarms, traffic, latency, errors, utilization and cost."""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.catalog.log_filters import log_filters
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.measured import Computed, searched
from infra.constructs.monitoring.signals import MILLISECONDS, PERCENT, Unit
from infra.constructs.monitoring.variant_graphs import VariantGraphs
from infra.constructs.monitoring.watched_endpoint import NAMESPACE, WatchedEndpoint
from infra.constructs.monitoring.widget import Side, Widget, alarm_status, body, graph

COLUMNS = 24  # CloudWatch's
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
        endpoint: WatchedEndpoint,
        alarms: EndpointAlarms,
        guarded: bool = False,
    ) -> None:
        """`guarded` updates are watched by alarms, so that old and new fleet are shown separately."""
        super().__init__(scope, construct_id)
        status = alarm_status(
            f"{endpoint.name}: alarms",
            [alarms.objective.attr_arn, *(one.arn for one in alarms.by_name.values())],
            width=COLUMNS,
            height=3,
        )
        graphs = [
            VariantGraphs(endpoint=endpoint, variant=variant, alarms=alarms)
            for variant in endpoint.variants
        ]
        rows: list[Sequence[Widget]] = [[status], *_rows(graphs)]
        if guarded:
            rows.append(fleet_graphs(endpoint.name, width=COLUMNS // 2))
        if endpoint.log_is_counted:
            rows.append([_log(endpoint, alarms)])
        cloudwatch.CfnDashboard(
            Construct(self, "Resource"),
            "Resource",
            # Dashboards of all regions of an account share one list.
            dashboard_name=f"{endpoint.name}-{endpoint.region}",
            dashboard_body=body(rows),
        )


def _rows(variants: Sequence[VariantGraphs]) -> list[Sequence[Widget]]:
    if len(variants) == 1:
        made = [graph(COLUMNS // 2) for graph in variants[0].all.values()]
        return [made[at : at + 2] for at in range(0, len(made), 2)]
    groups = [
        variants[at : at + MOST_SIDE_BY_SIDE] for at in range(0, len(variants), MOST_SIDE_BY_SIDE)
    ]
    # A variant with GPUs has a graph that another lacks, and one with instance pools lacks one.
    rows = [
        [variant.all[name](COLUMNS // len(group)) for variant in group if name in variant.all]
        for name in dict.fromkeys(name for variant in variants for name in variant.all)
        for group in groups
    ]
    return [row for row in rows if row]


def _log(endpoint: WatchedEndpoint, alarms: EndpointAlarms) -> Widget:
    """The counters of the container's log, for all variants together."""
    refused = alarms.of(None, "queue-refused")
    counted = [endpoint.metrics.counted_in_log(log_filter.metric) for log_filter in log_filters()]
    return graph(
        f"{endpoint.name}: counted in the log, per minute",
        left=Side(label="lines", metrics=counted, lines=[refused.line] if refused else []),
        width=COLUMNS,
    )


# These metrics have the configuration's name as a dimension, and only during a guarded update. They
# need a search expression, because the name of the next configuration is not known yet.
DIMENSIONS = ("EndpointConfigName", "EndpointName", "VariantName")


def fleet_graphs(endpoint_name: str, *, width: int) -> list[Widget]:
    """p99 latency and 5xx share, side by side; empty when no update runs."""
    return [
        _graph(endpoint_name, "ModelLatency", "p99", "p99 latency", MILLISECONDS, width),
        _graph(endpoint_name, "Invocation5XXErrors", "Average", "5xx", PERCENT, width),
    ]


def _graph(
    endpoint_name: str, metric: str, statistic: str, title: str, unit: Unit, width: int
) -> Widget:
    found = searched(NAMESPACE, metric, DIMENSIONS, statistic, EndpointName=endpoint_name)
    shown = Computed(expression=f"{found} / {unit.in_the_metric:g}")
    return graph(
        f"during an update, by configuration: {title} ({unit.symbol})",
        left=Side(label=unit.symbol, metrics=[shown]),
        width=width,
    )
