"""An endpoint of this app or an existing one: who may invoke it, and its metrics."""

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.constructs.monitoring.watched_endpoint import (
    EndpointMetrics,
    WatchedEndpoint,
    WatchedVariant,
)
from infra.constructs.storage.locations import AsyncInferenceLocations
from infra.policy.hosting import EndpointKind, kind_of
from infra.policy.permissions import via_s3

_HERE: Mapping[str, str] = {}


class MetricProps(TypedDict, total=False):
    """Further arguments of every metric."""

    statistic: str
    """CloudWatch's statistic: Average, Sum, p99, and so on. Default: the method says it."""
    period: cdk.Duration
    """Period of a value. Default: as often as SageMaker publishes the metric."""
    label: str
    """Label of the metric in graphs. Default: its name."""


class IEndpoint(Construct):
    """An endpoint: a `ModelEndpoint`, or an existing one from `ModelEndpoint.from_endpoint_name`.

    The methods `metric_…` take the variant's name, which may be left out if there is only one. They
    return CDK's own metrics: `endpoint.metric_model_latency().create_alarm(…)`.
    """

    name: str
    """The endpoint's name as it was given."""
    kind: EndpointKind
    metrics: EndpointMetrics
    locations: AsyncInferenceLocations | None = None
    """Locations of requests and answers of an asynchronous endpoint."""
    _place: Mapping[str, str] = _HERE

    @property
    def endpoint_name(self) -> str:
        """The endpoint's name; what uses that of a `ModelEndpoint` is deployed after it."""
        return self.name

    @property
    def endpoint_arn(self) -> str:
        """The endpoint's ARN, in which SageMaker writes the name in lower case."""
        return self.arns[0]

    @property
    def arns(self) -> Sequence[str]:
        """The ARN in both spellings that IAM may be asked about."""
        return endpoint_arns(cdk.Stack.of(self), self.name, self._place)

    @property
    def watched(self) -> WatchedEndpoint:
        """The endpoint as alarms and dashboards use it."""
        raise NotImplementedError

    def invocations_allowed(self) -> list[iam.PolicyStatement]:
        """The statements that allow invoking this endpoint, and no other; with a queue also to put
        requests and to read answers.

        Components are named too, as in a solution of AWS's that invokes them:
        https://github.com/aws-solutions/generative-ai-application-builder-on-aws (2026-11-28)
        """
        stack, resources = cdk.Stack.of(self), list(self.arns)
        for component in self.metrics.components.values():
            resources += endpoint_arns(stack, component, self._place, "inference-component")
        statements = [iam.PolicyStatement(actions=[self.kind.invoke_action], resources=resources)]
        if (locations := self.locations) is not None:
            requests = locations.requests
            written = [locations.answers.objects_arn, locations.failures.objects_arn]
            statements += [
                iam.PolicyStatement(actions=["s3:PutObject"], resources=[requests.objects_arn]),
                iam.PolicyStatement(actions=["s3:GetObject"], resources=written),
                iam.PolicyStatement(
                    actions=["kms:Decrypt", "kms:GenerateDataKey"],
                    resources=[requests.key_arn],
                    conditions=via_s3(cdk.Stack.of(self).region),
                ),
            ]
        return statements

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allows `grantee` to invoke this endpoint, and no other."""
        grants = [
            iam.Grant.add_to_principal(
                grantee=grantee,
                actions=statement.actions,
                resource_arns=statement.resources,
                conditions=statement.conditions,
            )
            for statement in self.invocations_allowed()
        ]
        first = grants[0]
        for grant in grants[1:]:
            first = first.combine(grant)
        return first

    def metric(
        self, metric_name: str, *, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """A metric that SageMaker publishes about the endpoint, for example ApproximateBacklogSize.

        `variant` None: the metric of the whole endpoint. Default: the mean, as often as it is published.
        Raises `UnpublishedMetricError`.
        """
        statistic = props.get("statistic", "Average")
        measured = self.metrics.of_variant(metric_name, variant, statistic)
        # CDK compares a metric's region with the alarm's, and a token with neither.
        place = {key: at for key, at in self._place.items() if not cdk.Token.is_unresolved(at)}
        return measured.with_(
            period=props.get("period", measured.period),
            label=props.get("label"),
            region=place.get("region"),
            account=place.get("account"),
        )

    def metric_invocations(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Requests. Default: their number in each minute."""
        return self._of("Invocations", "Sum", variant, props)

    def metric_invocations_per_instance(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Requests per instance. Default: their number in each minute."""
        return self._of("InvocationsPerInstance", "Sum", variant, props)

    def metric_invocation_4xx_errors(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Requests answered with 4xx. Default: their share, 0 to 1."""
        return self._of("Invocation4XXErrors", "Average", variant, props)

    def metric_invocation_5xx_errors(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Requests answered with 5xx. Default: their share, 0 to 1."""
        return self._of("Invocation5XXErrors", "Average", variant, props)

    def metric_model_latency(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Time the container took to answer one request. Unit: microseconds. Default: p99."""
        return self._of("ModelLatency", "p99", variant, props)

    def metric_overhead_latency(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Time that SageMaker itself adds to a request. Unit: microseconds. Default: the mean."""
        return self._of("OverheadLatency", "Average", variant, props)

    def metric_cpu_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """CPU in percent of one vCPU: four that are busy are 400. Default: mean of the instances."""
        return self._of("CPUUtilization", "Average", variant, props)

    def metric_memory_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Memory in percent of the instance's. Default: that of the fullest instance."""
        return self._of("MemoryUtilization", "Maximum", variant, props)

    def metric_disk_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Disk in percent of the volume. Default: that of the fullest instance."""
        return self._of("DiskUtilization", "Maximum", variant, props)

    def metric_gpu_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """GPUs in percent of one: two that are busy are 200. Default: mean of the instances."""
        return self._of("GPUUtilization", "Average", variant, props)

    def metric_gpu_memory_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """GPU memory in percent of one GPU's. Default: that of the fullest instance."""
        return self._of("GPUMemoryUtilization", "Maximum", variant, props)

    def _of(
        self, name: str, statistic: str, variant: str | None, props: MetricProps
    ) -> cloudwatch.Metric:
        names = [each.name for each in self.watched.variants]
        if variant is None and len(names) != 1:
            which = f"one of {', '.join(names)}" if names else "its name"
            raise ValueError(
                f"{self.node.path}: variant: the metric is of one variant; give {which}"
            )
        if variant is not None and names and variant not in names:
            raise ValueError(
                f"{self.node.path}: variant: {variant!r} is none of {', '.join(names)}"
            )
        given: MetricProps = {"statistic": statistic, **props}
        return self.metric(name, variant=variant or names[0], **given)


class ImportedEndpoint(IEndpoint):
    """An endpoint that exists already; `ModelEndpoint.from_endpoint_name` and its kin make it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        variants: Sequence[WatchedVariant] = (),
        asynchronous: bool = False,
        region: str | None = None,
        account: str | None = None,
    ) -> None:
        """`variants` are those that alarms, dashboards and metrics are about. Default: unknown; name the
        variant of a metric then. `region` and `account` default to the stack's."""
        super().__init__(scope, construct_id)
        self.name = name
        self._place = {
            key: value
            for key, value in (("region", region), ("account", account))
            if value is not None
        }
        instances = all(variant.instance_types for variant in variants)
        self.kind = kind_of(queued=asynchronous, has_instances=instances)
        self.metrics = EndpointMetrics(endpoint_name=name, kind=self.kind)
        self._variants = tuple(variants)

    @property
    def watched(self) -> WatchedEndpoint:
        """The endpoint as alarms and dashboards use it."""
        region = self._place.get("region", cdk.Stack.of(self).region)
        return WatchedEndpoint(
            name=self.name, region=region, variants=self._variants, kind=self.kind
        )


def endpoint_arns(
    stack: cdk.Stack, name: str, place: Mapping[str, str] = _HERE, resource: str = "endpoint"
) -> list[str]:
    """The ARN of an endpoint, or component, as SageMaker writes it, in lower case, and as the name is spelt.

    `place` has region and account where they are not the stack's. IAM compares case-sensitively, and no
    page of AWS says which of the two it is asked about; one of AWS's solutions came to name both:
    https://github.com/aws-solutions/research-service-workbench-on-aws/pull/1048
    AWS's example of an event has EndpointName MyEndpoint and endpoint/myendpoint among its resources:
    https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html (2026-11-22)
    """
    # A name that only CloudFormation knows cannot be changed here.
    spelt = [name] if cdk.Token.is_unresolved(name) else dict.fromkeys((name.lower(), name))
    return [
        stack.format_arn(
            service="sagemaker",
            resource=resource,
            resource_name=each,
            region=place.get("region"),
            account=place.get("account"),
        )
        for each in spelt
    ]
