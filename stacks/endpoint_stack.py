"""ENV/endpoint: everything one environment deploys."""

from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.alarm_topic import AlarmTopic
from infra.constructs.capture_store import Destination
from infra.constructs.data_capture import DataCapture
from infra.constructs.deployment_history import DeploymentHistory
from infra.constructs.deployment_record import record
from infra.constructs.endpoint_alarms import EndpointAlarms
from infra.constructs.endpoint_callers import EndpointCallers
from infra.constructs.endpoint_dashboard import EndpointDashboard
from infra.constructs.endpoint_events import EndpointEvents
from infra.constructs.endpoint_logs import EndpointLogs
from infra.constructs.endpoint_scaling import EndpointScaling
from infra.constructs.model_endpoint import ModelEndpoint
from infra.constructs.notification_key import NotificationKey
from infra.constructs.served_variant import ServedVariant
from infra.parameters.environment import Environment
from model_packaging.places import MADE


class EndpointStack(cdk.Stack):
    """One stack, because its parts reference each other and change together.

    Exports between stacks would be held in use by the very deploy that changes them.
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
        stack_name: str | None = None,
    ) -> None:
        """`root`: the project that paths in the environment are relative to.
        `captured`: where samples go, with [capture]."""
        name = environment.endpoint.name
        super().__init__(
            scope,
            construct_id,
            stack_name=stack_name,
            description=f"The SageMaker endpoint {name}",
            tags=environment.tags,
        )
        logs = EndpointLogs(
            self,
            "Logs",
            endpoint_name=name,
            retention_days=environment.endpoint.log_retention_days,
            kms_key_arn=environment.endpoint.log_kms_key,
        )
        endpoint = ModelEndpoint(
            self,
            "Endpoint",
            name=name,
            variants=[
                ServedVariant(
                    self,
                    f"Variant-{variant_name}",
                    name=variant_name,
                    variant=variant,
                    environment=environment,
                    endpoint_name=name,
                    region=environment.region,
                    log_group_arn=logs.arn,
                    may_roll_back=environment.rollout is not None,
                    root=root,
                    captured=captured,
                )
                for variant_name, variant in environment.variants.items()
            ],
            alarms=environment.alarms,
            rollout=environment.rollout,
            volume_kms_key=environment.endpoint.volume_kms_key,
            capture=DataCapture(capture=environment.capture, destination=captured)
            if environment.capture and captured
            else None,
        )
        endpoint.resource.node.add_dependency(logs)
        for variant_name, variant in environment.variants.items():
            if variant.scaling is not None:
                EndpointScaling(
                    self,
                    f"Scaling-{variant_name}",
                    endpoint=endpoint,
                    variant=variant_name,
                    min_instances=variant.min_instances,
                    max_instances=variant.most_instances,
                    scaling=variant.scaling,
                )
        if environment.endpoint.callers:
            EndpointCallers(
                self,
                "Callers",
                endpoint_arn=endpoint.arn,
                roles=environment.endpoint.callers,
            )
        told = environment.alarms
        key = NotificationKey(self, "NotificationKey", given_arn=told.topic_kms_key).key
        inform = AlarmTopic(self, "AlarmTopic", notify=told.notify, key=key).topic
        page = AlarmTopic(self, "PageTopic", notify=told.page, key=key).topic if told.page else None
        if told.events:
            EndpointEvents(self, "Events", endpoint_name=name, inform=inform)
        alarms = EndpointAlarms(
            self, "Alarms", endpoint=endpoint.watched, alarms=told, inform=inform, page=page
        )
        EndpointDashboard(
            self,
            "Dashboard",
            endpoint=endpoint.watched,
            alarms=alarms,
            guarded=environment.rollout is not None,
        )
        DeploymentHistory(
            self,
            "Deployment",
            settings=environment.model_dump(mode="json", exclude_unset=True),
            overrides=overrides,
            variants=[one.recorded for one in endpoint.variants],
            after=endpoint.resource,
            root=root,
            made=root / MADE,
        )
        record(self, endpoint=endpoint, topic=inform, overrides=overrides)
