"""An endpoint of this app or an existing one: who may invoke it, and its metrics."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Protocol, TypedDict, Unpack

import aws_cdk as cdk
import jsii
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from aws_cdk import aws_sns as sns
from aws_cdk.interfaces import aws_sagemaker as references
from constructs import Construct, IConstruct

from infra.arguments import check_kind, read_arguments
from infra.constructs.endpoint.endpoint_config import EndpointConfig
from infra.constructs.endpoint.inference_component import InferenceComponent
from infra.constructs.endpoint.variant import EndpointVariant
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.endpoint_dashboard import EndpointDashboard, Row
from infra.constructs.monitoring.watched_endpoint import Tables, Watchable, WatchedEndpoint
from infra.constructs.storage.locations import AsyncInferenceLocations
from infra.parameters.monitoring import Alarms
from infra.policy.hosting import EndpointKind
from infra.policy.permissions import build_s3_condition

# CDK leaves this ID out of logical IDs: a construct with it has those of the construct around it.
BELOW = "Default"
Creation = Callable[[Construct], None]
"""Creates the content of a construct."""
_HERE: Mapping[str, str] = {}


class MetricProps(TypedDict, total=False):
    """Further arguments of every metric."""

    statistic: str
    """CloudWatch's statistic: Average, Sum, p99, and so on. Default: the method says it."""
    period: cdk.Duration
    """Period of a value. Default: as often as SageMaker publishes the metric."""
    label: str
    """Label of the metric in graphs. Default: its name."""


class OperatedEndpoint(IConstruct, Watchable, Protocol):
    """An `Endpoint` as its scaling, rollout, and checks use it."""

    name: str
    tables: Tables
    resource: sagemaker.CfnEndpoint
    config: EndpointConfig

    @property
    def kind(self) -> EndpointKind: ...

    @property
    def variants(self) -> Sequence[EndpointVariant]: ...

    @property
    def components(self) -> Mapping[str, InferenceComponent]: ...

    def find_variant(self, name: str) -> EndpointVariant: ...

    def create(self) -> None: ...


@jsii.implements(sagemaker.IEndpoint)
class EndpointBase(cdk.Resource):
    """An endpoint: an `Endpoint`, or an existing one from `Endpoint.from_endpoint_name`.

    The methods `metric_…` take the variant's name, which may be left out if there is only one. They
    return CDK's own metrics: `endpoint.metric_model_latency().create_alarm(…)`.
    """

    name: str
    """The endpoint's name as you passed it."""
    locations: AsyncInferenceLocations | None = None
    """Locations of requests and responses of an asynchronous endpoint."""
    _place: Mapping[str, str] = _HERE
    _alarms: EndpointAlarms | None = None
    _thresholds: Alarms | None = None
    _guarded = False
    """Whether a rollout watches updates, so that a dashboard shows both fleets."""

    def __init__(
        self, scope: Construct, construct_id: str, *, account: str | None = None,
        region: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(scope, construct_id, account=account, region=region)
        self._scope = scope

    @property
    def kind(self) -> EndpointKind:
        """Return the kind of the endpoint: real-time, asynchronous, or serverless."""
        raise NotImplementedError

    @property
    def watched(self) -> WatchedEndpoint:
        """Return the endpoint as alarms and dashboards use it."""
        raise NotImplementedError

    @property
    def endpoint_name(self) -> str:
        """Return the name; a resource that uses that of an `Endpoint` is deployed after it."""
        return self.name

    @property
    def endpoint_arn(self) -> str:
        """Return the endpoint's ARN, in which SageMaker writes the name in lowercase."""
        return self.arns[0]

    @property
    def endpoint_ref(self) -> references.EndpointReference:
        """Return the reference that CDK's own constructs take."""
        return references.EndpointReference(endpoint_arn=self.endpoint_arn)

    @property
    def arns(self) -> Sequence[str]:
        """Return the ARN in both spellings that IAM may compare."""
        return build_endpoint_arns(self.stack, self.name, self._place)

    @property
    def alarms(self) -> EndpointAlarms:
        """Return the alarms of `add_alarms`, or raise ValueError; creates the endpoint's constructs."""
        self.create()
        if self._alarms is None:
            raise ValueError(f"{self.node.path}: alarms: there are none; call add_alarms first")
        return self._alarms

    def create(self) -> None:
        """Create the constructs that depend on every variant. Synthesis calls it."""

    def require_open(self, call: str) -> None:
        """Raise ValueError if the constructs that depend on every variant exist already."""

    def add_alarms(
        self,
        *,
        notify: sns.ITopic,
        page: sns.ITopic | None = None,
        p99_latency_ms: float | None = None,
        window_minutes: int | None = None,
        settings: Alarms | None = None,
        construct_id: str | None = None,
    ) -> None:
        """Add all alarms, and a composite alarm that pages the on-call engineer; `alarms` has them.

        notify: Topic of all notifications. If it is encrypted, CloudWatch must be allowed to use its key.
        page: Topic that pages the on-call engineer. Default: `notify`.
        p99_latency_ms: Objective for the 99th percentile of the latency. Default: that of `settings`.
        window_minutes: Window of the alarms on requests. Default: that of `settings`.
        settings: Further thresholds. Default: `Alarms()`.
        construct_id: ID next to the endpoint, for alarms that are deployed. Default: Alarms, below it.
        """
        given = {"p99_latency_ms": p99_latency_ms, "window_minutes": window_minutes}
        where = f"{self.node.path}: add_alarms"
        check_kind(where, "topic", notify=notify, page=page)
        self._thresholds = alarms = read_arguments(where, Alarms, given, settings)

        def create(place: Construct) -> None:
            self._alarms = EndpointAlarms(
                place, BELOW, endpoint=self, alarms=alarms, inform=notify, page=page
            )

        self._add_content(2, "add_alarms", construct_id, "Alarms", create)

    def add_dashboard(self, *, below: Sequence[Row] = (), construct_id: str | None = None) -> None:
        """Add a dashboard with the alarms of `add_alarms`.

        below: Further rows, such as `BatchTransform.rows`. Default: none.
        construct_id: ID next to the endpoint, for a dashboard that is deployed. Default: Dashboard, below it.
        """

        def create(place: Construct) -> None:
            if self._alarms is None:
                cdk.Annotations.of(self).add_error(
                    "add_dashboard: the endpoint has no alarms to show; call add_alarms(notify=…) too"
                )
            else:
                alarms, guarded = self._alarms, self._guarded
                EndpointDashboard(
                    place, BELOW, endpoint=self, alarms=alarms, guarded=guarded, below=below
                )

        self._add_content(3, "add_dashboard", construct_id, "Dashboard", create)

    def _add_content(
        self, order: int, call: str, construct_id: str | None, default_id: str, create: Creation
    ) -> None:
        """Create content in a new construct, next to the endpoint if `construct_id` is given.

        Otherwise the construct is below the endpoint. Raises ValueError if it exists already.
        """
        self.require_open(call)
        scope: Construct = self._scope
        if construct_id is None:
            scope, construct_id = self, default_id
        if scope.node.try_find_child(construct_id) is not None:
            raise ValueError(
                f"{self.node.path}: {call}: {scope.node.path}/{construct_id} exists already; call {call} "
                "once, or pass a different construct_id"
            )
        self._create_when_ready(order, Construct(scope, construct_id), create)

    def _create_when_ready(self, order: int, place: Construct, create: Creation) -> None:
        """Create the content of a construct as soon as every variant is known."""
        create(place)

    def invocations_allowed(self) -> list[iam.PolicyStatement]:
        """Return the policy statements that allow invoking this endpoint, and no other.

        With a queue they also allow writing requests and reading responses. They name components, as in
        https://github.com/aws-solutions/generative-ai-application-builder-on-aws (2026-11-28)
        """
        resources = self._list_invoked_arns()
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
                    conditions=build_s3_condition(cdk.Stack.of(self).region),
                ),
            ]
        return statements

    def _list_invoked_arns(self) -> list[str]:
        """Return the ARNs of the endpoint and of its inference components."""
        arns, kind = [*self.arns], "inference-component"
        for component in self.watched.components.values():
            arns += build_endpoint_arns(self.stack, component, self._place, kind)
        return arns

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Allow `grantee` to invoke this endpoint, and no other."""
        check_kind(f"{self.node.path}: grant_invoke", "grantee", grantee=grantee)
        grants = (
            iam.Grant.add_to_principal(
                grantee=grantee,
                actions=statement.actions,
                resource_arns=statement.resources,
                conditions=statement.conditions,
            )
            for statement in self.invocations_allowed()
        )
        return reduce(iam.Grant.combine, grants)

    def metric(
        self, metric_name: str, *, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return a metric that SageMaker publishes, for example ApproximateBacklogSize.

        If `variant` is None, it is the metric of the whole endpoint. By default, it is the mean, as
        often as it is published. Raises `UnpublishedMetricError`.
        """
        statistic = props.get("statistic", "Average")
        measured = self.watched.build_metric(metric_name, variant, statistic)
        # CDK compares a metric's region with the alarm's, and a token with neither.
        place = {key: at for key, at in self._place.items() if not cdk.Token.is_unresolved(at)}
        return measured.with_(
            period=props.get("period", measured.period), label=props.get("label"),
            region=place.get("region"), account=place.get("account"),
        )  # fmt: skip

    def metric_invocations(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of requests. Default: their number in each minute."""
        return self._build_variant_metric("Invocations", "Sum", variant, props)

    def metric_invocations_per_instance(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of requests per instance. Default: their number in each minute."""
        return self._build_variant_metric("InvocationsPerInstance", "Sum", variant, props)

    def metric_invocation_4xx_errors(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of 4xx responses. Default: their share of the requests, 0 to 1."""
        return self._build_variant_metric("Invocation4XXErrors", "Average", variant, props)

    def metric_invocation_5xx_errors(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of 5xx responses. Default: their share of the requests, 0 to 1."""
        return self._build_variant_metric("Invocation5XXErrors", "Average", variant, props)

    def metric_model_latency(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of the container's response time, in microseconds. Default: p99."""
        return self._build_variant_metric("ModelLatency", "p99", variant, props)

    def metric_overhead_latency(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of the microseconds that SageMaker adds to a request. Default: the mean."""
        return self._build_variant_metric("OverheadLatency", "Average", variant, props)

    def metric_cpu_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of the CPU; 100 % is one vCPU. Default: the mean of the instances."""
        return self._build_variant_metric("CPUUtilization", "Average", variant, props)

    def metric_memory_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of the instance's memory, in percent. Default: the fullest instance."""
        return self._build_variant_metric("MemoryUtilization", "Maximum", variant, props)

    def metric_disk_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of the volume, in percent. Default: the fullest instance."""
        return self._build_variant_metric("DiskUtilization", "Maximum", variant, props)

    def metric_gpu_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of the GPUs; 100 % is one GPU. Default: the mean of the instances."""
        return self._build_variant_metric("GPUUtilization", "Average", variant, props)

    def metric_gpu_memory_utilization(
        self, variant: str | None = None, **props: Unpack[MetricProps]
    ) -> cloudwatch.Metric:
        """Return the metric of the GPUs' memory; 100 % is one GPU's. Default: the fullest instance."""
        return self._build_variant_metric("GPUMemoryUtilization", "Maximum", variant, props)

    def _build_variant_metric(
        self, name: str, statistic: str, variant: str | None, props: MetricProps
    ) -> cloudwatch.Metric:
        names, where = [each.name for each in self.watched.variants], f"{self.node.path}: variant:"
        known = f"one of {', '.join(names)}" if names else "its name"
        if variant is None and len(names) != 1:
            raise ValueError(f"{where} each variant has its own metric; pass {known}")
        if variant is not None and names and variant not in names:
            raise ValueError(f"{where} {variant!r} doesn't exist; use {known}")
        given: MetricProps = {"statistic": statistic, **props}
        return self.metric(name, variant=variant or names[0], **given)


def build_endpoint_arns(
    stack: cdk.Stack, name: str, place: Mapping[str, str] = _HERE, resource: str = "endpoint"
) -> list[str]:
    """Return an endpoint's or component's ARNs, with the name in lowercase and as it is spelled.

    SageMaker writes the name in lowercase. `place` has the Region and account if they aren't the
    stack's. IAM compares case-sensitively, and no AWS page says which of the two IAM compares;
    one AWS solution came to name both:
    https://github.com/aws-solutions/research-service-workbench-on-aws/pull/1048
    AWS's example of an event has EndpointName MyEndpoint and endpoint/myendpoint among its
    resources:
    https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html
    (2026-11-22)
    """
    # A name that only CloudFormation knows cannot be changed here.
    spelt = [name] if cdk.Token.is_unresolved(name) else dict.fromkeys((name.lower(), name))
    region, account = place.get("region"), place.get("account")
    every = stack.format_arn(service="sagemaker", resource=resource, region=region, account=account)
    return [f"{every}/{each}" for each in spelt]
