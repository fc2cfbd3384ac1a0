"""A metric, and what is computed of several: plain values until CloudFormation is told of them.

Each object of CDK is a round trip to its process; an environment has fifty metrics, drawn and watched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch

PERIOD_MINUTES = 1  # as often as SageMaker publishes
PERIOD_SECONDS = PERIOD_MINUTES * 60
# What an alarm calls a statistic; all others (p99) are extended ones.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-cloudwatch-alarm.html
SIMPLE = ("Average", "Maximum", "Minimum", "SampleCount", "Sum")
# A percentile of few samples is judged like one of many. `ignore` would hold the alarm's state: an
# alarm on a new fleet would never leave INSUFFICIENT_DATA, so that a small canary was not watched
# at all, and one in ALARM would stay there all night.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/percentiles-with-low-samples.html
# (2026-11-22)
FEW_SAMPLES = "evaluate"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One metric over one minute."""

    namespace: str
    name: str
    statistic: str
    dimensions: Mapping[str, str] = field(default_factory=dict)
    label: str | None = None

    @property
    def for_cdk(self) -> cloudwatch.Metric:
        """For CDK's own alarms, graphs and scaling."""
        return cloudwatch.Metric(
            namespace=self.namespace,
            metric_name=self.name,
            dimensions_map=dict(self.dimensions),
            statistic=self.statistic,
            label=self.label,
            period=_period(),
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
        return {**self._identity, "period": PERIOD_SECONDS, **statistic}

    def in_query(self, query_id: str) -> dict[str, Any]:
        """What an alarm's expression calls `query_id`."""
        identity = self._identity
        identity["metricName"] = identity.pop("metric_name")
        stat = {"metric": identity, "period": PERIOD_SECONDS, "stat": self.statistic}
        return {"id": query_id, "metricStat": stat, "returnData": False}

    @property
    def _identity(self) -> dict[str, Any]:
        dimensions = [
            {"name": name, "value": value} for name, value in sorted(self.dimensions.items())
        ]
        return {
            "namespace": self.namespace,
            "metric_name": self.name,
            **({"dimensions": dimensions} if dimensions else {}),
        }


@dataclass(frozen=True, kw_only=True)
class Computed:
    """An expression of CloudWatch's metric math; `using`: what it calls each metric."""

    expression: str
    using: Mapping[str, Measured] = field(default_factory=dict)
    label: str | None = None

    @property
    def for_cdk(self) -> cloudwatch.MathExpression:
        """For CDK's own alarms and graphs."""
        return cloudwatch.MathExpression(
            expression=self.expression,
            using_metrics={name: metric.for_cdk for name, metric in self.using.items()},
            label=self.label,
            period=_period(),
        )

    @property
    def in_alarm(self) -> dict[str, Any]:
        """The properties of an AWS::CloudWatch::Alarm on what comes out."""
        result = {
            "id": "expr_1",
            "expression": self.expression,
            "label": self.label,
            "returnData": True,
        }
        return {"metrics": [result, *(one.in_query(name) for name, one in self.using.items())]}


Metric = Measured | Computed


def _period() -> cdk.Duration:
    return cdk.Duration.minutes(PERIOD_MINUTES)
