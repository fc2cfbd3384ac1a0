"""The stack ENV/endpoint with everything that one environment deploys."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from infra.constructs.access.endpoint_callers import EndpointCallers
from infra.constructs.access.role_rules import RoleRules
from infra.constructs.async_inference.async_inference import AsyncInference
from infra.constructs.endpoint.deployment_history import DeploymentHistory, record
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.model_endpoint import ModelEndpoint, data_capture
from infra.constructs.endpoint.served_variant import ServedVariant
from infra.constructs.model.execution_role import ModelDependencies
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from infra.constructs.monitoring.notifications import NotificationKey, Notifications
from infra.constructs.rollout.endpoint_rollout import EndpointRollout
from infra.constructs.scaling.endpoint_scaling import EndpointScaling
from infra.constructs.storage.locations import AsyncInferenceLocations, Destination
from infra.parameters.batch.job import BatchJob, batch_jobs
from infra.parameters.environment import Environment
from infra.parameters.rollout import GoldenRequests

if TYPE_CHECKING:
    from infra.constructs.batch.batch_transform import BatchTransform


class EndpointStack(cdk.Stack):
    """The endpoint and its dependencies in one stack, because they reference each other.

    Exports between stacks could not change, since a deploy cannot change an export that is in use.
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
        """`root` is the project, and `env` None means the stage's. `captured` is the destination of samples
        with [capture], `queued` that of requests and answers with [asynchronous]."""
        super().__init__(
            scope,
            construct_id,
            stack_name=stack_name,
            env=env,
            description=f"The SageMaker endpoint {environment.endpoint.name}",
            tags=environment.tags,
            termination_protection=environment.endpoint.protect,
        )
        self._environment, self._root, self._queued = environment, root, queued
        name = environment.endpoint.name
        logs = self._logs() if environment.variants else None
        self._key = NotificationKey(
            self, "NotificationKey", given_arn=environment.alarms.topic_kms_key
        ).key
        self._variants: list[ServedVariant] = []
        self._recorded: list[dict[str, object]] = []
        self._served = served = None if logs is None else self._endpoint(logs, captured)
        notified = Notifications(
            self,
            endpoint_name=name if served else None,
            alarms=environment.alarms,
            key=self._key,
        )
        self.topic = notified.inform
        if served:
            self._operate(served, notified)
        batches = [self._batch(job, notified) for job in batch_jobs(environment)]
        self._watch(served, notified, batches)
        DeploymentHistory(
            self,
            "Deployment",
            settings=environment.model_dump(mode="json", exclude_unset=True),
            overrides=overrides,
            variants=[each for variant in self._variants for each in variant.recorded],
            batches=self._recorded,
            after=batches
            if served is None
            else [c.resource for c in served.components.values()] or [served.resource],
            root=root,
        )
        record(self, endpoint=served, topic=notified.inform, overrides=overrides)

    @property
    def endpoint(self) -> ModelEndpoint:
        """The endpoint. Raises ValueError for an environment of batches alone."""
        if self._served is None:
            raise ValueError(f"{self.node.path} has no endpoint: its file has no [variants.NAME]")
        return self._served

    def _endpoint(
        self, logs: Mapping[str, EndpointLogs], captured: Destination | None
    ) -> ModelEndpoint:
        """Creates the endpoint after its queue and models."""
        environment, queued = self._environment, self._queued
        table = environment.endpoint
        asynchronous, async_inference = environment.asynchronous, None
        if asynchronous is not None and queued is not None:
            async_inference = AsyncInference(
                self, "Queue", asynchronous=asynchronous, locations=queued, key=self._key
            )
        dependencies = ModelDependencies(
            log_group_arn=next(iter(logs.values())).arn,
            rolls_back=table.name if environment.rollout else None,
            captured=captured,
            async_inference=async_inference,
            volume_kms_key=table.volume_kms_key,
            network=environment.network,
            roles=RoleRules.of(environment.security),
        )
        self._variants = [
            ServedVariant(
                self,
                f"Variant-{name}",
                name=name,
                environment=environment,
                root=self._root,
                dependencies=dependencies,
                logs=logs,
            )
            for name in environment.variants
        ]
        return ModelEndpoint(
            self,
            "Endpoint",
            name=table.name,
            variants=self._variants,
            volume_key=table.volume_kms_key,
            capture=data_capture(environment.capture, captured)
            if environment.capture and captured
            else None,
            async_inference=async_inference,
            metrics=environment.metrics,
            protect=table.protect,
            acknowledged_request_bytes=environment.acknowledged_request_bytes,
        )

    def _logs(self) -> dict[str, EndpointLogs]:
        """The log groups by name in `Environment.served`: the endpoint's, or one for each component."""
        table, components = self._environment.endpoint, self._environment.components
        key = table.log_kms_key and kms.Key.from_key_arn(self, "LogsKey", table.log_kms_key)
        group = partial(
            EndpointLogs,
            self,
            endpoint_name=table.name,
            retention_days=table.log_retention_days,
            key=key or None,
            keep=table.log_removal == "retain",
        )
        if not components:
            return dict.fromkeys(self._environment.served, group("Logs"))
        return {
            name: group(f"Logs-{name}" if number else "Logs", component=component)
            for number, (name, component) in enumerate(components.items())
        }

    def _operate(self, endpoint: ModelEndpoint, notified: Notifications) -> None:
        """Adds the rollout, scaling and callers."""
        environment = self._environment
        EndpointRollout(
            self,
            "Rollout",
            endpoint=endpoint,
            rollout=environment.rollout,
            alarms=environment.alarms,
        )
        if environment.rollout is not None and environment.rollout.golden_requests is not None:
            sender = self._golden_sender(endpoint, notified, environment.rollout.golden_requests)
            # The function must exist before the update during which it sends requests.
            endpoint.resource.node.add_dependency(sender)
        for name, scaling in environment.scaled.items():
            EndpointScaling(
                self, f"Scaling-{name}", endpoint=endpoint, variant=name, scaling=scaling
            )
        if environment.endpoint.callers:
            EndpointCallers(
                self,
                "Callers",
                endpoint=endpoint,
                roles=[
                    iam.Role.from_role_arn(self, f"Caller{number}", arn)
                    for number, arn in enumerate(environment.endpoint.callers)
                ],
                path=environment.security.iam_path,
            )

    def _watch(
        self,
        endpoint: ModelEndpoint | None,
        notified: Notifications,
        batches: "Sequence[BatchTransform]",
    ) -> None:
        """Adds the endpoint's alarms, and the dashboard."""
        environment = self._environment
        if endpoint is None:
            from infra.constructs.batch.batch_transform import BatchDashboard

            name = environment.endpoint.name
            BatchDashboard(self, "Dashboard", name=name, batches=batches)
            return
        alarms = EndpointAlarms(
            self,
            "Alarms",
            endpoint=endpoint.watched,
            alarms=environment.alarms,
            inform=notified.inform,
            page=notified.page,
        )
        EndpointDashboard(
            self,
            "Dashboard",
            endpoint=endpoint.watched,
            alarms=alarms,
            guarded=environment.rollout is not None,
            below=[row for batch in batches for row in batch.rows],
        )

    def _batch(self, job: BatchJob, notified: Notifications) -> "BatchTransform":
        # CDK's modules for Step Functions and Scheduler are imported only if needed.
        from infra.constructs.batch.batch_transform import BatchTransform, batch_model, recorded

        environment, table = self._environment, self._environment.endpoint
        model = batch_model(
            self, f"BatchModel-{job.name}", job=job, environment=environment, root=self._root
        )
        self._recorded.append(recorded(job, model, environment.region))
        batch = BatchTransform(
            self,
            f"Batch-{job.name}",
            name=f"{table.name}-{job.name}",
            model=model,
            inform=notified.inform,
            topic_key=self._key,
            runbook=environment.alarms.runbook,
            log_retention_days=table.log_retention_days,
            log_key=kms.Key.from_key_arn(self, f"BatchLogKey-{job.name}", table.log_kms_key)
            if table.log_kms_key
            else None,
            keep_log=table.log_removal == "retain",
            role_rules=RoleRules.of(environment.security),
        )
        for name, value in (("Model", model.name), ("StateMachine", batch.state_machine_arn)):
            cdk.CfnOutput(
                self,
                f"{job.output}{name}",
                value=value,
                description=f"{name} of the batch {job.name}",
            )
        return batch

    def _golden_sender(
        self, endpoint: ModelEndpoint, notified: Notifications, golden: GoldenRequests
    ) -> Construct:
        # CDK's module for Lambda takes a tenth of a synth, so it is imported only if needed.
        from infra.constructs.rollout.golden_sender import GoldenSender

        environment = self._environment
        return GoldenSender(
            self,
            "GoldenRequests",
            endpoint_name=endpoint.name,
            golden=golden,
            body=golden.body.path.read_bytes(),
            log_kms_key_arn=environment.endpoint.log_kms_key,
            keep_log=environment.endpoint.log_removal == "retain",
            inform=notified.inform,
            runbook=environment.alarms.runbook,
            roles=RoleRules.of(environment.security),
        )
