"""The endpoint's dashboard: alarms, traffic, latency, errors, utilization and cost."""

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.catalog.metrics import log_filters
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.measured import Computed, searched
from infra.constructs.monitoring.variant_graphs import VariantGraphs
from infra.constructs.monitoring.watched_endpoint import Watchable, WatchedEndpoint
from infra.constructs.monitoring.widget import Side, Widget, body, graph
from infra.parameters.alarms import MILLISECONDS, PERCENT, Unit

COLUMNS = 24  # CloudWatch's
Row = tuple[int, Sequence[Widget]]  # each widget's width in columns, and the widgets
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
        """endpoint: The endpoint: of this app, imported, or a `WatchedEndpoint`.
        alarms: Its alarms, whose states and thresholds are shown.
        guarded: Whether an `EndpointRollout` watches updates, so that old and new fleet are shown
            separately. Default: False.
        below: Further rows, such as `BatchTransform.rows`. Default: none.
        """
        super().__init__(scope, construct_id)
        self._make(endpoint.watched, alarms, guarded, below)

    def _make(
        self, endpoint: WatchedEndpoint, alarms: EndpointAlarms, guarded: bool, below: Sequence[Row]
    ) -> None:
        arns = [alarms.objective.attr_arn, *(alarm.arn for alarm in alarms.by_name.values())]
        # The states of the alarms; one in ALARM is red.
        states = {"title": f"{endpoint.name}: alarms", "alarms": arns}
        status = Widget(kind="alarm", height=3, properties=states)
        rows: list[Row] = [(COLUMNS, [status]), *_variant_rows(endpoint, alarms)]
        if guarded:
            fleets = [_fleet_graph(endpoint.name, *shown) for shown in BY_FLEET]
            rows.append((COLUMNS // 2, fleets))
        if endpoint.log_is_counted:
            # The counters of the container's log, for all variants together.
            metrics = endpoint.metrics
            refused = alarms.of(None, "queue-refused")
            counters = Side(
                label="lines",
                metrics=[metrics.counted_in_log(log_filter.metric) for log_filter in log_filters()],
                lines=[refused.line] if refused else [],
            )
            title = f"{endpoint.name}: counted in the log, per minute"
            rows.append((COLUMNS, [graph(title, left=counters)]))
        cloudwatch.CfnDashboard(
            Construct(self, "Resource"),
            "Resource",
            # Dashboards of all regions of an account share one list.
            dashboard_name=f"{endpoint.name}-{endpoint.region}",
            dashboard_body=body([*rows, *below]),
        )


def _variant_rows(endpoint: WatchedEndpoint, alarms: EndpointAlarms) -> list[Row]:
    variants = [
        VariantGraphs(endpoint=endpoint, variant=variant, alarms=alarms).all
        for variant in endpoint.variants
    ]
    if len(variants) == 1:
        widgets = list(variants[0].values())
        return [(COLUMNS // 2, widgets[at : at + 2]) for at in range(0, len(widgets), 2)]
    rows: list[Row] = []
    for name in dict.fromkeys(name for graphs in variants for name in graphs):
        for at in range(0, len(variants), MOST_SIDE_BY_SIDE):
            group = variants[at : at + MOST_SIDE_BY_SIDE]
            # A variant with GPUs has a graph that another lacks, and one with instance pools lacks one.
            if row := [graphs[name] for graphs in group if name in graphs]:
                rows.append((COLUMNS // len(group), row))
    return rows


# These metrics have the configuration's name as a dimension, and only during a guarded update. They
# need a search expression, because the name of the next configuration is not known yet.
DIMENSIONS = ("EndpointConfigName", "EndpointName", "VariantName")


# p99 latency and 5xx share: metric, statistic, title, unit
BY_FLEET = (
    ("ModelLatency", "p99", "p99 latency", MILLISECONDS),
    ("Invocation5XXErrors", "Average", "5xx", PERCENT),
)


def _fleet_graph(endpoint_name: str, metric: str, statistic: str, title: str, unit: Unit) -> Widget:
    """The metric by configuration; empty when no update runs."""
    search = searched(metric, DIMENSIONS, statistic, EndpointName=endpoint_name)
    shown = Computed(expression=f"{search} / {unit.in_the_metric:g}")
    return graph(
        f"during an update, by configuration: {title} ({unit.symbol})",
        left=Side(label=unit.symbol, metrics=[shown]),
    )
