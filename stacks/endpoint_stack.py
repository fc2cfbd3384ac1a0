"""ENV/endpoint: everything one environment deploys."""

from collections.abc import Mapping
from pathlib import Path

import aws_cdk as cdk
from constructs import Construct

from infra.constructs.access.endpoint_callers import EndpointCallers
from infra.constructs.async_inference.queue import Queue
from infra.constructs.async_inference.queue_topics import QueueTopics
from infra.constructs.endpoint.data_capture import DataCapture
from infra.constructs.endpoint.deployment_history import DeploymentHistory
from infra.constructs.endpoint.deployment_record import record
from infra.constructs.endpoint.endpoint_logs import EndpointLogs
from infra.constructs.endpoint.model_endpoint import ModelEndpoint
from infra.constructs.endpoint.served_variant import ServedVariant
from infra.constructs.model.places import Destination, QueuePlaces
from infra.constructs.monitoring.alarm_topic import AlarmTopic
from infra.constructs.monitoring.endpoint_alarms import EndpointAlarms
from infra.constructs.monitoring.endpoint_dashboard import EndpointDashboard
from infra.constructs.monitoring.endpoint_events import EndpointEvents
from infra.constructs.monitoring.notification_key import NotificationKey
from infra.constructs.rollout.endpoint_rollout import EndpointRollout
from infra.constructs.scaling.endpoint_scaling import EndpointScaling
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
        queued: QueuePlaces | None = None,
        stack_name: str | None = None,
    ) -> None:
        """`root`: the project that paths in the environment are relative to.
        `captured`: where samples go, with [capture]. `queued`: requests and answers, with
        [asynchronous]."""
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
        told = environment.alarms
        key = NotificationKey(self, "NotificationKey", given_arn=told.topic_kms_key).key
        queue = None
        if environment.asynchronous is not None and queued is not None:
            asked = environment.asynchronous
            topics = QueueTopics(self, "Queue", asynchronous=asked, key=key)
            queue = Queue(asynchronous=asked, places=queued, topics=topics)
        variants = [
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
                queue=queue,
            )
            for variant_name, variant in environment.variants.items()
        ]
        endpoint = ModelEndpoint(
            self,
            "Endpoint",
            name=name,
            variants=variants,
            volume_kms_key=environment.endpoint.volume_kms_key,
            capture=DataCapture(capture=environment.capture, destination=captured)
            if environment.capture and captured
            else None,
            queue=queue,
            logs=logs,
        )
        if environment.rollout is not None:
            EndpointRollout(
                self,
                "Rollout",
                endpoint=endpoint,
                rollout=environment.rollout,
                alarms=environment.alarms,
            )
            golden = environment.rollout.golden_requests
            if golden is not None:
                # CDK's module for Lambda takes a tenth of every synth: only who asks waits for it.
                from infra.constructs.rollout.golden_sender import GoldenSender

                sender = GoldenSender(
                    self,
                    "GoldenRequests",
                    endpoint_name=name,
                    golden=golden,
                    body=(root / golden.body).read_bytes(),
                    log_kms_key_arn=environment.endpoint.log_kms_key,
                )
                # Before the update that it is to ask in.
                endpoint.resource.node.add_dependency(sender)
        for served in variants:
            variant = environment.variants[served.name]
            if variant.scaling is not None and variant.scales:
                least, most = variant.capacity
                EndpointScaling(
                    self,
                    f"Scaling-{served.name}",
                    endpoint=endpoint,
                    variant=served.name,
                    min_instances=least,
                    max_instances=most,
                    scaling=variant.scaling,
                    start_seconds=served.start_seconds,
                )
        if environment.endpoint.callers:
            EndpointCallers(
                self,
                "Callers",
                endpoint_arn=endpoint.arn,
                roles=environment.endpoint.callers,
                queued=queued if queue else None,
            )
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
            variants=[one.recorded for one in variants],
            after=endpoint.resource,
            root=root,
            made=root / MADE,
        )
        record(self, endpoint=endpoint, topic=inform, overrides=overrides)
