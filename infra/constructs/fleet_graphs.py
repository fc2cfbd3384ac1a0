"""The old and the new fleet of an update, one line for each configuration."""

from aws_cdk import aws_cloudwatch as cloudwatch

from infra.catalog import metrics
from infra.constructs.alarm_signal import MILLISECONDS, PERCENT, Unit
from infra.constructs.endpoint_metrics import NAMESPACE, PERIOD, PERIOD_MINUTES

# Published with the configuration's name only while an update is guarded, so a search and no
# list: the name of the next configuration is not known yet.
DIMENSIONS = ("EndpointConfigName", "EndpointName", "VariantName")
SECONDS = PERIOD_MINUTES * 60


def fleet_graphs(endpoint_name: str, *, width: int) -> list[cloudwatch.IWidget]:
    """p99 latency and 5xx share, side by side; empty when no update runs."""
    return [
        _graph(endpoint_name, "ModelLatency", "p99", "p99 latency", MILLISECONDS, width),
        _graph(endpoint_name, "Invocation5XXErrors", "Average", "5xx", PERCENT, width),
    ]


def _graph(
    endpoint_name: str, metric: str, statistic: str, title: str, unit: Unit, width: int
) -> cloudwatch.IWidget:
    metrics.check(NAMESPACE, metric, statistic, DIMENSIONS)
    found = (
        f"SEARCH('{{{NAMESPACE},{','.join(DIMENSIONS)}}} "
        f'EndpointName="{endpoint_name}" MetricName="{metric}"\', '
        f"'{statistic}', {SECONDS})"
    )
    return cloudwatch.GraphWidget(
        title=f"during an update, by configuration: {title} ({unit.symbol})",
        left=[
            cloudwatch.MathExpression(
                expression=f"{found} / {unit.in_the_metric:g}",
                using_metrics={},
                label="",
                period=PERIOD,
            )
        ],
        left_y_axis=cloudwatch.YAxisProps(label=unit.symbol, min=0, show_units=False),
        width=width,
    )
