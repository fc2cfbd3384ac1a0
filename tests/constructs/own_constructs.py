"""Every public construct in a minimal and in a full stack, of one account and region and of any.

python tests/constructs/own_constructs.py OUT NAG
"""

import sys
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns

from infra.constructs.acknowledged import accept_wildcards
from servable import constructs as own
from stacks.audits import add_rule_packs

ROOT = Path(__file__).resolve().parents[2]
RANKER = ROOT / "examples" / "ranker"
TYPE = "ml.c5.xlarge"
LAMBDA = iam.ServicePrincipal("lambda.amazonaws.com")


def minimal(stack: cdk.Stack, name: str) -> None:
    """Each construct with nothing but what it needs."""
    arn = stack.format_arn(service="sns", resource="on-call")
    topic = sns.Topic.from_topic_arn(stack, "OnCall", arn)
    model = own.Model.from_saved_model(stack, "Model", RANKER / "model")
    rows = own.BatchSettings(
        model="model", instance_type=TYPE, input="s3://tables/rows/", output="s3://tables/scores/",
        content_type="text/csv",
    )  # fmt: skip
    own.BatchTransform(
        stack, "Batch", name=f"{name}-batch", model=model, settings=rows, inform=topic
    )
    endpoint = own.Endpoint(stack, "Endpoint", endpoint_name=name)
    endpoint.add_variant("primary", model, instance_type=TYPE)
    endpoint.add_alarms(notify=topic)
    endpoint.add_dashboard()
    own.EndpointEvents(stack, "Events", endpoint_name=name, inform=topic)
    own.Endpoint.from_endpoint_name(stack, "Other", "other").metric_invocations("a")
    shown = own.Endpoint.from_endpoint_attributes(
        stack, "Shown", endpoint_name="shown", variants=["a"], components=["ranker"]
    )
    shown.add_alarms(notify=topic)


def full(stack: cdk.Stack, name: str) -> None:
    """Each construct with all that it takes."""
    key = kms.Key(stack, "Key", enable_key_rotation=True)
    vpc = ec2.Vpc(stack, "Vpc", max_azs=2, restrict_default_security_group=False)
    vpc.add_flow_log("Flow")
    role = iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
    topic_key = own.NotificationKey(stack, "TopicKey", given_arn=None).key
    topic = own.AlarmTopic(stack, "Topic", notify=["oncall@example.com"], key=topic_key)
    logs = own.EndpointLogs(
        stack, "Logs", endpoint_name=name, retention_days=365, key=key, keep=True
    )
    capture = own.Capture(sample_percent=20)
    captured = own.CaptureStore(stack, "Captured", capture=capture, key=key).captured
    model = own.Model.from_saved_model(
        stack,
        "Model",
        str(RANKER / "model" / "1"),
        model_name="ranker",
        code=str(RANKER / "code"),
        warm_up=[RANKER / "golden" / "request-rows.json"],
        environment={"LOG": "short"},
        tensorflow="2.20",
        role=role,
        archive=own.ArchiveSettings(version=7, keys=[key]),
        container=own.ContainerSettings(batching=own.Batching(max_batch_size=64)),
        network=own.ModelNetwork(
            vpc=vpc,
            subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
            security_groups=[ec2.SecurityGroup(stack, "Group", vpc=vpc, allow_all_outbound=False)],
            isolated=True,
        ),
    )
    model.connections.allow_to(ec2.SecurityGroup(stack, "Store", vpc=vpc), ec2.Port.tcp(6379))
    endpoint = own.Endpoint(
        stack,
        "Endpoint",
        endpoint_name=name,
        capture=own.DataCapture(capture=capture, destination=captured),
        logs=logs,
        volume_key=key,
        metrics=own.Metrics(detailed_observability=True),
        production=True,
        traffic=own.Traffic(peak_rps=100),
        protect=True,
    )
    size = own.VariantSettings(volume_gb=40)
    primary = endpoint.add_variant(
        "primary",
        model,
        instance_type=TYPE,
        min_instances=2,
        max_instances=6,
        weight=1,
        settings=size,
    )
    primary.auto_scale(settings=own.Scaling(max_rps_per_instance=100), construct_id="Scaling")
    rollout = own.Rollout(strategy="canary", canary_percent=50)
    endpoint.roll_out(settings=rollout, construct_id="Rollout")
    alarms = own.Alarms(p99_latency_ms=80)
    endpoint.add_alarms(notify=topic, page=topic, settings=alarms, construct_id="Alarms")
    endpoint.add_dashboard(construct_id="Dashboard")
    own.EndpointEvents(stack, "Events", endpoint_name=name, inform=topic)
    caller = iam.Role(stack, "Caller", assumed_by=LAMBDA)
    own.EndpointCallers(stack, "Callers", endpoint=endpoint, roles=[caller])
    other = own.Endpoint.from_endpoint_arn(
        stack, "Other", "arn:aws:sagemaker:eu-west-1:111111111111:endpoint/other"
    )
    other.grant_invoke(caller)
    latency = other.metric_model_latency("a")
    latency.create_alarm(stack, "Slow", threshold=80_000, evaluation_periods=3)
    _asynchronous(stack, f"{name}-async", key, caller)
    _batch(stack, f"{name}-batch", key, topic)
    _components(stack, f"{name}-shared", topic)
    _components(stack, f"{name}-sleeping", topic, sleeps=True)


def _components(stack: cdk.Stack, name: str, topic: sns.ITopic, *, sleeps: bool = False) -> None:
    """Two models on shared instances; or one that sleeps."""
    endpoint = own.Endpoint(stack, name, endpoint_name=name)
    scaling = own.Scaling(max_concurrency_per_instance=4)
    names, kind = ["primary"] if sleeps else ["ranker", "candidates"], "ml.c6i.2xlarge"
    models = {
        each: own.Model.from_saved_model(stack, f"{name}-{each}", RANKER / "model", model_name=each)
        for each in names
    }
    if sleeps:
        (model,) = models.values()
        primary = endpoint.add_variant(
            "primary", model, instance_type=kind, max_instances=2, sleep_after_minutes=15
        )
        primary.auto_scale(settings=scaling)
    else:
        shared = own.VariantSettings(instance_type=kind, min_instances=0, max_instances=2)
        primary = endpoint.add_variant("primary", settings=shared)
        for each, model in models.items():
            copies = own.ComponentSettings(model=each, max_copies=2)
            component: own.InferenceComponent = primary.add_component(
                each, model, sleep_after_minutes=15, settings=copies
            )
            component.auto_scale(settings=scaling)
    endpoint.add_alarms(notify=topic)
    endpoint.add_dashboard()


def _batch(stack: cdk.Stack, name: str, key: kms.Key, topic: sns.ITopic) -> None:
    batch = own.BatchSettings(
        model="ranker", instance_type="ml.m5.xlarge", instances=2, content_type="application/jsonlines",
        input="s3://tables/rows/", output="s3://tables/scores/", join=True, schedule="cron(0 2 * * ? *)",
    )  # fmt: skip
    rows = own.Model.from_saved_model(
        stack, "Rows", RANKER / "model", model_name="ranker", handler="servable"
    )
    made = own.BatchTransform(
        stack, "Batch", name=name, model=rows, settings=batch, inform=topic, topic_key=key,
        volume_key=key, log=own.LogSettings(key=key, keep=True),
    )  # fmt: skip
    made.grant_start(iam.Role(stack, "Starter", assumed_by=LAMBDA))


def _asynchronous(stack: cdk.Stack, name: str, key: kms.Key, caller: iam.Role) -> None:
    asynchronous = own.Asynchronous(max_concurrent_invocations_per_instance=4)
    store = own.AsyncInferenceStore(stack, "Requests", asynchronous=asynchronous)
    queue = own.AsyncInference(
        stack, "Queue", asynchronous=asynchronous, locations=store.locations, key=key
    )
    model = own.Model.from_saved_model(
        stack,
        "QueueModel",
        RANKER / "model",
        model_name="ranker",
        handler="servable",
        role_rules=own.RoleRules(path="/search/"),
        network=own.Network(
            subnets=["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
            security_groups=["sg-0123456789abcdef0"],
        ),
    )
    logs = own.EndpointLogs(stack, "QueueLogs", endpoint_name=name)
    endpoint = own.Endpoint(
        stack, "QueueEndpoint", endpoint_name=name, async_inference=queue, logs=logs
    )
    endpoint.add_variant("primary", model, instance_type=TYPE)
    endpoint.grant_invoke(caller)
    # The owner of a role says why it may write wherever a prefix begins.
    written = (at.objects_arn for at in vars(store.locations).values())
    accept_wildcards(caller, dict.fromkeys(written, "callers name their requests"))


def app(out: str) -> cdk.App:
    """Four stacks."""
    made = cdk.App(outdir=out, analytics_reporting=False, builtin_cloud_formation_validation=False)
    env = cdk.Environment(account="111111111111", region="eu-west-1")
    for place, where in (("any", None), ("one", env)):
        minimal(cdk.Stack(made, f"minimal-{place}", env=where), f"minimal-{place}")
        full(cdk.Stack(made, f"full-{place}", env=where), f"full-{place}")
    return made


if __name__ == "__main__":
    synthesised = app(sys.argv[1])
    add_rule_packs(synthesised, sys.argv[2])
    synthesised.synth()
