"""The old and the new fleet of an update, one line for each configuration."""

from infra.catalog import metrics
from infra.constructs.monitoring.alarm_signal import MILLISECONDS, PERCENT, Unit
from infra.constructs.monitoring.endpoint_metrics import NAMESPACE
from infra.constructs.monitoring.measured import PERIOD_SECONDS, Computed
from infra.constructs.monitoring.widget import Side, Widget, graph

# Published with the configuration's name only while an update is guarded, so a search and no
# list: the name of the next configuration is not known yet.
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
    metrics.check(NAMESPACE, metric, statistic, DIMENSIONS)
    found = (
        f"SEARCH('{{{NAMESPACE},{','.join(DIMENSIONS)}}} "
        f'EndpointName="{endpoint_name}" MetricName="{metric}"\', '
        f"'{statistic}', {PERIOD_SECONDS})"
    )
    shown = Computed(expression=f"{found} / {unit.in_the_metric:g}")
    return graph(
        f"during an update, by configuration: {title} ({unit.symbol})",
        left=Side(label=unit.symbol, metrics=[shown]),
        width=width,
    )
