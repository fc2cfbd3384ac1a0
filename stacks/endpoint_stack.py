"""The stack ENV/endpoint with everything that an environment deploys, except ENV/data."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from constructs import Construct, IDependable

from infra.constructs.access.endpoint_callers import EndpointCallers
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.endpoint.deployment_history import DeploymentHistory, add_outputs
from infra.constructs.endpoint.endpoint import Endpoint
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.model.model import Model
from infra.constructs.model.network import ModelNetwork
from infra.constructs.monitoring.notifications import AlarmTopic, EndpointEvents, NotificationKey
from infra.constructs.storage.locations import (
    AsyncInference,
    AsyncInferenceLocations,
    DataCapture,
    Destination,
)
from infra.parameters.batch.job import BatchJob, list_batch_jobs
from infra.parameters.environment import Environment
from infra.parameters.rollout import GoldenRequests
from infra.parameters.variant import Variant

if TYPE_CHECKING:
    from infra.constructs.batch.batch_transform import BatchTransform

    Batches = Sequence[BatchTransform]

# A tag that the local AWS reads (servable_local/aws/sagemaker/runtime_api.py); AWS ignores it.
REQUEST_BYTES_TAG = "servable:request-bytes"


class EndpointStack(cdk.Stack):
    """The endpoint and its dependencies in one stack, because they reference each other.

    With several stacks, exports between them couldn't change, because a deployment can't change
    an export that is in use.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        root: Path,
        overrides: Mapping[str, str],
        captured: Destination | None = None,
        queued: AsyncInferenceLocations | None = None,
        stack_name: str | None = None,
        env: cdk.Environment | None = None,
    ) -> None:
        """Create the resources of one environment.

        `root` is the project. If `env` is None, the stage's is used. `captured` is the
        destination of samples with [capture], and `queued` that of requests and responses with
        [asynchronous].
        """
        super().__init__(
            scope,
            construct_id,
            stack_name=stack_name,
            env=env,
            description=f"The SageMaker endpoint {environment.endpoint.name}",
            tags=environment.tags,
            termination_protection=environment.endpoint.protect,
        )
        self._environment, self._root = environment, root
        alarms = environment.alarms
        key = NotificationKey(self, "NotificationKey", given_arn=alarms.topic_kms_key)
        self._key = key.key
        self._endpoint: Endpoint | None = None
        if environment.variants:
            self._endpoint = self._add_endpoint(captured, queued)
            for name, table in environment.variants.items():
                self._add_variant(self._endpoint, name, table)
        self.topic = AlarmTopic(self, "AlarmTopic", notify=alarms.notify, key=self._key)
        if self._endpoint is None:
            batches = [self._add_batch(job) for job in list_batch_jobs(environment)]
            cloudwatch.Dashboard(
                self,
                "Dashboard",
                dashboard_name=f"{environment.endpoint.name}-{self.region}",
                widgets=[row for batch in batches for row in batch.rows],
            )
        else:
            page = self.topic
            if alarms.page:
                page = AlarmTopic(self, "PageTopic", notify=alarms.page, key=self._key)
            if alarms.events:
                name = environment.endpoint.name
                EndpointEvents(self, "Events", endpoint_name=name, inform=self.topic)
            batches = [self._add_batch(job) for job in list_batch_jobs(environment)]
            self._add_operations(self._endpoint, page, batches)
        self._add_record(overrides, batches)

    @property
    def endpoint(self) -> Endpoint:
        """Return the endpoint. Raise ValueError for an environment that only has batches."""
        if self._endpoint is None:
            why = "because its file has no [variants.NAME]"
            raise ValueError(f"{self.node.path} has no endpoint, {why}")
        return self._endpoint

    def _add_endpoint(
        self, captured: Destination | None, queued: AsyncInferenceLocations | None
    ) -> Endpoint:
        """Add the endpoint with its log group, queue, and samples, and return it."""
        environment, table = self._environment, self._environment.endpoint
        asynchronous, capture = environment.asynchronous, environment.capture
        key = table.log_kms_key and kms.Key.from_key_arn(self, "LogsKey", table.log_kms_key)
        self._group = partial(
            EndpointLogs,
            self,
            endpoint_name=table.name,
            retention_days=table.log_retention_days,
            key=key or None,
            keep=table.log_removal == "retain",
        )
        endpoint = Endpoint(
            self,
            "Endpoint",
            endpoint_name=table.name,
            volume_key=table.volume_kms_key,
            logs=None if environment.components else self._group("Logs"),
            protect=table.protect,
            variant_order=list(environment.variants),
            capture=DataCapture(capture=capture, destination=captured)
            if capture and captured
            else None,
            async_inference=AsyncInference(
                self, "Queue", asynchronous=asynchronous, locations=queued, key=self._key
            )
            if asynchronous and queued
            else None,
            metrics=environment.metrics,
        )
        endpoint.use_file(environment)
        if (size := environment.acknowledged_request_bytes) is not None:
            cdk.Tags.of(endpoint.resource).add(REQUEST_BYTES_TAG, str(size))
        return endpoint

    def _add_variant(self, endpoint: Endpoint, name: str, table: Variant) -> None:
        """Add a variant with its model, or with the models of its components."""
        scope, environment = Construct(self, f"Variant-{name}"), self._environment
        model = None if table.components else self._add_model(scope, "Model", table.model)
        variant = endpoint.add_variant(name, model, settings=table)
        for key, component in table.components.items():
            served = self._add_model(scope, f"Model-{key}", component.model)
            variant.add_component(key, served, settings=component)
        for key, added in variant.components.items():
            first = key == next(iter(environment.components))
            added.logs = self._group("Logs" if first else f"Logs-{key}", component=added.name)
        for part in (*variant.components.values(), variant):
            key = part.key
            scaling = environment.scaling_tables.get(key)
            if scaling is not None and (part is not variant or not variant.components):
                part.auto_scale(settings=scaling, construct_id=f"Scaling-{key}")

    def _add_model(self, scope: Construct, construct_id: str, name: str) -> Model:
        environment = self._environment
        security, table = environment.security, environment.models[name]
        return Model(
            scope,
            construct_id,
            name=name,
            models=environment.models,
            network=ModelNetwork(ids=environment.network, isolated=security.network_isolation),
            role=table.execution_role or environment.endpoint.execution_role,
            role_rules=RoleRules.from_security(security),
            archive_keys=environment.endpoint.archive_kms_keys,
            root=self._root,
            roles_by_type=True,
        )

    def _add_operations(self, endpoint: Endpoint, page: sns.ITopic, batches: "Batches") -> None:
        """Add the rollout, alarms, dashboard, and callers."""
        environment = self._environment
        endpoint.add_alarms(
            notify=self.topic, page=page, settings=environment.alarms, construct_id="Alarms"
        )
        if environment.rollout is not None:
            endpoint.roll_out(settings=environment.rollout, construct_id="Rollout")
            if environment.rollout.golden_requests is not None:
                # The function must exist before the update during which it sends requests.
                sender = self._add_golden_sender(environment.rollout.golden_requests)
                endpoint.resource.node.add_dependency(sender)
        below = [row for batch in batches for row in batch.rows]
        endpoint.add_dashboard(below=below, construct_id="Dashboard")
        if environment.endpoint.callers:
            roles = [
                iam.Role.from_role_arn(self, f"Caller{number}", arn)
                for number, arn in enumerate(environment.endpoint.callers)
            ]
            path = environment.security.iam_path
            EndpointCallers(self, "Callers", endpoint=endpoint, roles=roles, path=path)
        endpoint.create()

    def _add_record(self, overrides: Mapping[str, str], batches: "Batches") -> None:
        """Add the deployment record, which is written after everything else, and the outputs."""
        endpoint, after = self._endpoint, list[IDependable](batches)
        variants = endpoint.variants if endpoint else ()
        if endpoint is not None:
            after = [each.resource for each in endpoint.components.values()]
            after = after or [endpoint.resource]
        DeploymentHistory(
            self,
            "Deployment",
            settings=self._environment.model_dump(mode="json", exclude_unset=True),
            overrides=overrides,
            variants=[each for variant in variants for each in variant.records],
            batches=[batch.record for batch in batches],
            after=after,
            root=self._root,
        )
        add_outputs(self, endpoint=endpoint, topic=self.topic, overrides=overrides)

    def _add_batch(self, job: BatchJob) -> "BatchTransform":
        """Return a batch with its model."""
        # CDK's modules for Step Functions and Scheduler are imported only if needed.
        from infra.constructs.batch.batch_transform import BatchTransform, LogSettings

        environment, table = self._environment, self._environment.endpoint
        model = self._add_model(self, f"BatchModel-{job.name}", job.batch.model)
        arn, key_id = table.log_kms_key, f"BatchLogKey-{job.name}"
        key = kms.Key.from_key_arn(self, key_id, arn) if arn else None
        batch = BatchTransform(
            self,
            f"Batch-{job.name}",
            name=f"{table.name}-{job.name}",
            model=model,
            settings=job,
            inform=self.topic,
            topic_key=self._key,
            runbook=environment.alarms.runbook,
            log=LogSettings(
                retention_days=table.log_retention_days,
                key=key,
                keep=table.log_removal == "retain",
            ),
            role_rules=RoleRules.from_security(environment.security),
        )
        for name, value in (("Model", batch.model_name), ("StateMachine", batch.state_machine_arn)):
            about = f"{name} of the batch {job.name}"
            cdk.CfnOutput(self, f"{job.output_prefix}{name}", value=value, description=about)
        return batch

    def _add_golden_sender(self, golden: GoldenRequests) -> Construct:
        # CDK's module for Lambda takes a tenth of a synth, so it is imported only if needed.
        from infra.constructs.rollout.golden_sender import GoldenSender

        environment = self._environment
        return GoldenSender(
            self,
            "GoldenRequests",
            endpoint_name=environment.endpoint.name,
            golden=golden,
            body=golden.body.path.read_bytes(),
            log_kms_key_arn=environment.endpoint.log_kms_key,
            keep_log=environment.endpoint.log_removal == "retain",
            inform=self.topic,
            runbook=environment.alarms.runbook,
            roles=RoleRules.from_security(environment.security),
        )
