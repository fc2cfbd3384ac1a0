"""Metrics and metric math as plain values, which become CDK objects only in alarms and graphs.

Every CDK object is a round trip to the jsii process, and an environment has fifty metrics.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch

from infra.catalog.metrics import check, namespace_of

PERIOD_SECONDS = 60  # as often as SageMaker publishes unless [metrics] says otherwise
# An alarm's plain statistics; all others (such as p99) are extended statistics.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-cloudwatch-alarm.html
SIMPLE = ("Average", "Maximum", "Minimum", "SampleCount", "Sum")
# Percentiles of few samples are evaluated like others. `ignore` would keep the alarm's state: an alarm
# on a new fleet would never leave INSUFFICIENT_DATA, so that a small canary would not be watched at
# all, and an alarm in ALARM would stay there all night.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/percentiles-with-low-samples.html
# (2026-11-22)
FEW_SAMPLES = "evaluate"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One metric; an alarm on it looks at a value for each period."""

    namespace: str
    name: str
    statistic: str
    dimensions: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None
    period_seconds: int = PERIOD_SECONDS
    """A minute, or how often SageMaker publishes the metric."""

    @property
    def for_cdk(self) -> cloudwatch.Metric:
        """The metric for CDK's own alarms and graphs."""
        return cloudwatch.Metric(
            namespace=self.namespace,
            metric_name=self.name,
            dimensions_map=dict(self.dimensions),
            statistic=self.statistic,
            label=self.label,
            period=cdk.Duration.seconds(self.period_seconds),
        )

    @property
    def in_alarm(self) -> dict[str, Any]:
        """The properties of an AWS::CloudWatch::Alarm on this metric."""
        statistic = {"statistic": self.statistic}
        if self.statistic not in SIMPLE:
            statistic = {
                "extended_statistic": self.statistic,
                "evaluate_low_sample_count_percentile": FEW_SAMPLES,
            }
        return {**self._identity, "period": self.period_seconds, **statistic}

    def in_query(self, query_id: str) -> dict[str, Any]:
        """The metric query that an alarm's expression refers to as `query_id`."""
        identity = self._identity
        identity["metricName"] = identity.pop("metric_name")
        stat = {"metric": identity, "period": self.period_seconds, "stat": self.statistic}
        return {"id": query_id, "metricStat": stat, "returnData": False}

    @property
    def _identity(self) -> dict[str, Any]:
        identity: dict[str, Any] = {"namespace": self.namespace, "metric_name": self.name}
        if self.dimensions:
            dimensions = sorted(self.dimensions.items())
            identity["dimensions"] = [{"name": name, "value": value} for name, value in dimensions]
        return identity


@dataclass(frozen=True, kw_only=True)
class Computed:
    """An expression of CloudWatch's metric math; `using` maps its variables to metrics."""

    expression: str
    using: Mapping[str, Measured] = field(default_factory=dict)
    label: str | None = None

    @property
    def period_seconds(self) -> int:
        """The longest period of its metrics."""
        return max(
            (metric.period_seconds for metric in self.using.values()), default=PERIOD_SECONDS
        )

    @property
    def in_alarm(self) -> dict[str, Any]:
        """The properties of an AWS::CloudWatch::Alarm on the expression."""
        result = {
            "id": "expr_1",
            "expression": self.expression,
            "label": self.label,
            "returnData": True,
        }
        queries = [metric.in_query(name) for name, metric in self.using.items()]
        return {"metrics": [result, *queries]}


def searched(name: str, dimensions: Sequence[str], statistic: str, **values: str) -> str:
    """The expression that finds each metric of this name with these dimensions, some with a value.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/search-expression-syntax.html (2026-11-23)
    """
    namespace = namespace_of(name)
    check(namespace, name, statistic, dimensions)
    terms = " ".join(f'{key}="{value}"' for key, value in {**values, "MetricName": name}.items())
    schema = ",".join((namespace, *dimensions))
    return f"SEARCH('{{{schema}}} {terms}', '{statistic}', {PERIOD_SECONDS})"


Metric = Measured | Computed
