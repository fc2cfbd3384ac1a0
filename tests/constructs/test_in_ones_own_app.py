"""Constructs in a stack of one's own: true counts, grants, metrics, tokens, and the checks."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Annotations, Match, Template

from infra.catalog.metrics import UnpublishedMetricError
from infra.constructs.monitoring.watched_endpoint import WatchedEndpoint, WatchedVariant
from model_packaging.refusal import PackagingError
from servable.constructs import (
    Alarms,
    Endpoint,
    EndpointLogs,
    Environment,
    EnvironmentFileError,
    Model,
    ModelNetwork,
    Network,
    Rollout,
    Scaling,
    VariantSettings,
)

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "ranker" / "model"
HERE = cdk.Environment(account="111111111111", region="eu-west-1")


class Own:
    """A stack with an endpoint of one variant."""

    def __init__(self, *, env: cdk.Environment | None = HERE, **variant: Any) -> None:
        names = ("network", "role")
        model = {name: variant.pop(name) for name in names if name in variant}
        self.stack = cdk.Stack(cdk.App(), "search", env=env)
        if variant.pop("vpc", False):
            model["network"] = ModelNetwork(vpc=ec2.Vpc(self.stack, "Vpc", max_azs=2))
        self.model = Model.from_saved_model(
            self.stack, "Model", str(FOLDER / "1"), model_name="ranker", **model
        )
        self.endpoint = Endpoint(self.stack, "Endpoint", endpoint_name="search")
        given = {"name": "primary", "instance_type": "ml.c5.xlarge", **variant}
        self.variant = self.endpoint.add_variant(given.pop("name"), self.model, **given)

    @property
    def count(self) -> int:
        (config,) = self.of_type("AWS::SageMaker::EndpointConfig")
        return int(config["ProductionVariants"][0]["InitialInstanceCount"])

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        found = Template.from_stack(self.stack).find_resources(kind)
        return [resource["Properties"] for resource in found.values()]


def test_a_fleet_begins_with_its_minimum_and_is_told_that_nothing_scales_it() -> None:
    own = Own(min_instances=2, max_instances=4)
    assert own.count == 2
    found = Annotations.from_stack(own.stack).find_warning(
        "/search/Endpoint", Match.string_like_regexp("max_instances")
    )
    assert len(found) == 1

    own = Own(min_instances=2, max_instances=4)
    own.variant.auto_scale(settings=Scaling(hold=True))
    assert own.count == 1
    assert own.of_type("AWS::ApplicationAutoScaling::ScalableTarget") == []


def test_a_different_maximum_changes_the_scalable_target_alone() -> None:
    four, six = (Own(min_instances=2, max_instances=most) for most in (4, 6))
    for own in (four, six):
        own.variant.auto_scale(max_rps_per_instance=100)
    before, after = (Template.from_stack(own.stack).to_json()["Resources"] for own in (four, six))
    changed = [before[name]["Type"] for name in before if before[name] != after[name]]
    assert changed == ["AWS::ApplicationAutoScaling::ScalableTarget"]


@pytest.mark.long
def test_the_order_of_calls_does_not_change_the_template() -> None:
    templates = []
    for order in ((0, 1, 2, 3, 4), (4, 3, 2, 1, 0)):
        stack = cdk.Stack(cdk.App(), "search", env=HERE)
        topic = sns.Topic(stack, "Topic")
        model = Model.from_saved_model(stack, "Model", FOLDER)
        endpoint = Endpoint(stack, "Endpoint", endpoint_name="search")

        def add_scaled(endpoint: Endpoint = endpoint, model: Model = model) -> None:
            variant = endpoint.add_variant(
                "b", model, instance_type="ml.c5.xlarge", max_instances=4
            )
            variant.auto_scale(max_rps_per_instance=50)

        def add_plain(endpoint: Endpoint = endpoint, model: Model = model) -> None:
            endpoint.add_variant("a", model, instance_type="ml.m5.large")

        def add_alarms(endpoint: Endpoint = endpoint, topic: sns.Topic = topic) -> None:
            endpoint.add_alarms(p99_latency_ms=80, notify=topic)

        def roll_out(endpoint: Endpoint = endpoint) -> None:
            endpoint.roll_out(canary_percent=50)

        calls = (add_scaled, add_plain, add_alarms, roll_out, endpoint.add_dashboard)
        for number in order:
            calls[number]()
        templates.append(Template.from_stack(stack).to_json())
    assert templates[0] == templates[1]
    kinds = [each["Type"] for each in templates[0]["Resources"].values()]
    assert {"AWS::CloudWatch::Dashboard", "AWS::CloudWatch::CompositeAlarm"} <= set(kinds)


def test_a_model_of_a_different_stack_has_its_permissions_in_the_stack_of_the_endpoint() -> None:
    app = cdk.App()
    models, stack = cdk.Stack(app, "models", env=HERE), cdk.Stack(app, "search", env=HERE)
    model = Model.from_saved_model(models, "Model", FOLDER)
    endpoint = Endpoint(stack, "Endpoint", endpoint_name="search")
    endpoint.add_variant("primary", model, instance_type="ml.c5.xlarge")
    template = Template.from_stack(stack)
    (policy,) = template.find_resources("AWS::IAM::Policy").values()
    assert "logs:PutLogEvents" in str(policy)
    assert len(template.find_resources("AWS::SageMaker::Model")) == 1
    assert len(Template.from_stack(models).find_resources("AWS::IAM::Role")) == 1


def test_a_region_looks_its_image_up_and_one_without_it_is_an_error() -> None:
    (model,) = Own(env=None).of_type("AWS::SageMaker::Model")
    assert "Fn::FindInMap" in str(model["PrimaryContainer"]["Image"])
    with pytest.raises(
        ValueError, match=r"env: TensorFlow .* no image in the region mars-west-1; set .*eu-west-1"
    ):
        Own(env=cdk.Environment(account="111111111111", region="mars-west-1")).endpoint.create()


@pytest.mark.long
def test_a_model_in_a_vpc_is_in_private_subnets_and_opens_what_it_may_reach() -> None:
    (model,) = Own(vpc=True).of_type("AWS::SageMaker::Model")
    refs = [subnet["Ref"] for subnet in model["VpcConfig"]["Subnets"]]
    assert [ref.startswith("VpcPrivateSubnet") for ref in refs] == [True, True]

    own = Own(vpc=True)
    store = ec2.SecurityGroup(
        own.stack, "Store", vpc=own.stack.node.find_child("Vpc"), allow_all_outbound=False
    )
    own.model.connections.allow_to(store, ec2.Port.tcp(6379))
    (rule,) = own.of_type("AWS::EC2::SecurityGroupIngress")
    assert rule["FromPort"] == 6379
    with pytest.raises(ValueError, match=r"pass .*network=ModelNetwork\(vpc=…\)"):
        _ = Own().endpoint.connections

    subnets = cdk.Fn.split(",", cdk.Fn.import_value("subnets"))
    groups = [cdk.Fn.import_value("group")]
    own = Own(network=Network(subnets=subnets, security_groups=groups))
    (model,) = own.of_type("AWS::SageMaker::Model")
    assert model["VpcConfig"]["Subnets"] == {"Fn::Split": [",", {"Fn::ImportValue": "subnets"}]}


def test_an_existing_role_gets_the_permissions_unless_it_is_immutable() -> None:
    stack = cdk.Stack(cdk.App(), "roles", env=HERE)
    role = iam.Role.from_role_name(stack, "Given", "data-science")
    (policy,) = Own(role=role).of_type("AWS::IAM::Policy")
    assert policy["Roles"] == ["data-science"]

    stack = cdk.Stack(cdk.App(), "roles", env=HERE)
    arn = "arn:aws:iam::111111111111:role/data-science"
    role = iam.Role.from_role_arn(stack, "Given", arn, mutable=False)
    assert Own(role=role).of_type("AWS::IAM::Policy") == []


def test_wildcards_for_the_network_of_another_stack_are_accepted_by_its_exports() -> None:
    app = cdk.App()
    stack, network = (cdk.Stack(app, name, env=HERE) for name in ("search", "network"))
    vpc = ec2.Vpc(network, "Vpc", max_azs=2)
    model = Model.from_saved_model(stack, "Other", FOLDER, network=ModelNetwork(vpc=vpc))
    endpoint = Endpoint(stack, "Endpoint", endpoint_name="search")
    endpoint.add_variant("primary", model, instance_type="ml.c5.xlarge")
    Template.from_stack(stack)
    assert model.execution is not None
    policy = model.execution.add_policy(model, model.pack(stack))
    accepted = str([entry.data for entry in policy.node.metadata])
    assert accepted.count(":subnet/network:ExportsOutputRef") == 2


def test_an_imported_endpoint_needs_its_variants_for_alarms_and_its_kind_for_grants() -> None:
    stack = cdk.Stack(cdk.App(), "caller", env=HERE)
    other = Endpoint.from_endpoint_name(stack, "Other", "other")
    topic = sns.Topic(stack, "Topic")
    with pytest.raises(ValueError, match="variants of endpoint other are unknown; import it with "):
        other.add_alarms(notify=topic)

    known = Endpoint.from_endpoint_attributes(
        stack, "Known", endpoint_name="known", kind="asynchronous", variants=["a"]
    )
    known.add_alarms(notify=topic)
    known.grant_invoke(
        iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    )
    template = Template.from_stack(stack)
    (policy,) = template.find_resources("AWS::IAM::Policy").values()
    assert "sagemaker:InvokeEndpointAsync" in str(policy)
    names = [
        each["Properties"]["AlarmName"]
        for each in template.find_resources("AWS::CloudWatch::Alarm").values()
    ]
    assert "known-a-cpu" in names
    with pytest.raises(
        ValueError, match="kind: 'batch' isn't a kind of endpoint; use one of real_time"
    ):
        Endpoint.from_endpoint_attributes(stack, "Odd", endpoint_name="odd", kind="batch")


def test_a_metric_is_of_the_only_variant_and_of_the_region_in_the_endpoints_arn() -> None:
    metric = Own().endpoint.metric_model_latency(statistic="p50")
    assert (metric.dimensions, metric.statistic) == (
        {"EndpointName": "search", "VariantName": "primary"},
        "p50",
    )

    stack = cdk.Stack(cdk.App(), "caller", env=HERE)
    arn = "arn:aws:sagemaker:us-west-2:222222222222:endpoint/other"
    metric = Endpoint.from_endpoint_arn(stack, "Other", arn).metric_invocations("primary")
    assert (metric.region, metric.account) == ("us-west-2", "222222222222")

    imported = Endpoint.from_endpoint_arn(stack, "Imported", cdk.Fn.import_value("arn"))
    metric = imported.metric_invocations("primary")
    metric.create_alarm(stack, "Busy", threshold=1, evaluation_periods=1)
    assert (metric.region, metric.account) == (None, None)


def test_a_metric_that_no_endpoint_publishes_is_refused() -> None:
    endpoint = Own().endpoint
    with pytest.raises(UnpublishedMetricError):
        endpoint.metric("ModelLatency", variant="primary", statistic="p99.99x")
    with pytest.raises(
        UnpublishedMetricError, match="no endpoint has a metric Latency; .*ModelLat"
    ):
        endpoint.metric("Latency")
    component = WatchedVariant(name="ranker", component="search-ranker")
    watched = WatchedEndpoint(name="search", region="eu-west-1", variants=(component,))
    of_component = {"InferenceComponentName": "search-ranker"}
    assert watched.build_metric("Invocations", "ranker", "Sum").dimensions == of_component
    with pytest.raises(UnpublishedMetricError):
        watched.build_metric("ModelLatency", "ranker", "p99.99x")


def test_what_check_knows_is_an_error_at_the_construct_in_the_words_of_the_app() -> None:
    own = Own(min_instances=0)
    own.endpoint.roll_out(settings=Rollout(strategy="canary", bake_minutes=2))
    found = Annotations.from_stack(own.stack)
    zero = r"^primary: min_instances: .*0 with Endpoint\(async_inference=…\) and auto_scale"
    assert len(found.find_error("/search/Endpoint", Match.string_like_regexp(zero))) == 1
    assert found.find_error("/search/Endpoint/Rollout", Match.string_like_regexp("^roll_out: bake"))
    every = [
        str(each.entry.data)
        for entries in (
            found.find_error("*", Match.any_value()),
            found.find_warning("*", Match.any_value()),
        )
        for each in entries
    ]
    assert [
        said
        for said in every
        if re.search(r"\[(variants|models|scaling)|(variants|models)\.", said)
    ] == []


# What a beginner writes, and the sentence that names the argument and the remedy.
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "type": ({"instance_type": "ml.c5.xlrge"},
        "add_variant: instance_type: 'ml.c5.xlrge' isn't an instance type; did you mean ml.c5"),
    "no type": ({"instance_type": None},
        "add_variant: instance_type: it is missing; pass one, such as ml.c5.xlarge"),
    "token": ({"instance_type": cdk.Fn.import_value("type")},
        "instance_type: its value is known only to CloudFormation.*pass the type as a string"),
    "range": ({"min_instances": 3, "max_instances": 2},
        "add_variant: max_instances: 2 is below min_instances = 3; pass 3 or more"),
    "weight": ({"weight": -1.0}, "add_variant: weight: -1.0 is out of range; allowed: 0 or more"),
    "text": ({"min_instances": "2"},
        "add_variant: min_instances: '2' is not a whole number; .*leave out the quotes: 2"),
    "name": ({"name": "pri mary"},
        "add_variant: name: 'pri mary' does not have the required format; .*; write it in that format"),
    "groups": ({"network": ModelNetwork(security_groups=[object()])},
        "network: .*need a vpc; pass vpc, or ids"),
    "table": ({"instance_type": None, "settings": {"instance_type": "ml.c5.xlarge"}},
        r"settings: \{.*\} isn't a table; pass VariantSettings\(…\)"),
    "vpc": ({"network": ModelNetwork(vpc="vpc-0123456789abcdef0")},
        "search/Model: network: vpc: 'vpc-.*' isn't a VPC; pass an ec2.Vpc, .*Vpc.from_lookup"),
}  # fmt: skip


def expect(kind: type[Exception], calls: dict[str, Callable[[], object]]) -> None:
    """Each call ends with its one sentence."""
    for said, call in calls.items():
        with pytest.raises(kind, match=said) as raised:
            call()
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("given", "said"), MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_is_named_with_its_argument_and_remedy(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said) as raised:
        Own(**given)
    assert "\n" not in str(raised.value)


def test_a_model_names_an_argument_that_does_not_fit() -> None:
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"handler": "servble"}, "search/M: handler: 'servble' is not known; allowed: servable"),
        ({"model_name": "a b"}, "search/M: model_name: 'a b' is not a valid name; .*rename it"),
        ({"environment": {"A": 1}}, "search/M: environment.A: 1 is not a string; .*quotes"),
        ({"tensorflow": "2.99"}, "search/M: tensorflow: no image has '2.99'; did you mean"),
    ]
    for given, said in mistakes:
        stack = cdk.Stack(cdk.App(), "search", env=HERE)
        with pytest.raises(ValueError, match=said):
            Model.from_saved_model(stack, "M", FOLDER, **given)
    # A warm-up that is one path is that file.
    stack = cdk.Stack(cdk.App(), "search", env=HERE)
    with pytest.raises(PackagingError, match="none.json: cannot be read"):
        Model.from_saved_model(stack, "M", FOLDER, warm_up="none.json")


def test_a_text_in_place_of_a_construct_and_a_wrong_table_are_one_sentence() -> None:
    own = Own()
    stack, text = own.stack, cast(Any, "arn:aws:x:::y")
    calls: dict[str, Callable[[], object]] = {
        "add_variant: model: .* isn't a model; pass": lambda: own.endpoint.add_variant(
            "b", text, instance_type="ml.c5.xlarge"
        ),
        "search/L: key: .* isn't a key; pass a kms.Key": lambda: EndpointLogs(
            stack, "L", endpoint_name="search", key=text
        ),
        "search/D: retention_days: 45 is not known; allowed: 1, 3": lambda: EndpointLogs(
            stack, "D", endpoint_name="search", retention_days=45
        ),
        "bucket: .* isn't a bucket; pass its name, or s3.Bucket": lambda: Model.from_archive(
            stack, "A", bucket=text, key="model.tar.gz", sha256="0" * 64
        ),
        "Alarms: p99_latency: unknown key .*p99_latency_ms": lambda: Alarms(p99_latency=80),  # type: ignore[call-arg]
        "^VariantSettings: min_instances: '2' is not a whole": lambda: VariantSettings(
            min_instances="2"  # type: ignore[arg-type]
        ),
    }
    expect(ValueError, calls)


def test_an_unknown_argument_is_named_with_the_one_to_use() -> None:
    own = Own()
    stack, variant, endpoint = own.stack, cast(Any, own.variant), cast(Any, own.endpoint)
    model, call_class, network = cast(Any, Model), cast(Any, Endpoint), cast(Any, ModelNetwork)
    calls: dict[str, Callable[[], object]] = {
        "Endpoint.add_variant: initial_instance_count: unknown argument; use min_instances": (
            lambda: endpoint.add_variant("b", own.model, initial_instance_count=2)
        ),
        "Endpoint: encryption_key: unknown argument; use volume_key": (
            lambda: call_class(stack, "Other", endpoint_name="other", encryption_key="k")
        ),
        "auto_scale: max_requests_per_second: .*; use max_rps_per_instance": (
            lambda: variant.auto_scale(max_requests_per_second=100)
        ),
        "Model.from_saved_model: vpc: unknown argument; use network": (
            lambda: model.from_saved_model(stack, "Other", FOLDER, vpc=None)
        ),
        "add_alarms: p99_latncy_ms: .*; use p99_latency_ms": (
            lambda: endpoint.add_alarms(p99_latncy_ms=80)
        ),
        "ModelNetwork: zzz: unknown argument; use one of vpc, ": lambda: network(zzz=1),
    }
    expect(TypeError, calls)
    with pytest.raises(TypeError, match="^Endpoint: endpoint_name: missing; pass a value$"):
        call_class(stack, "Other")
    with pytest.raises(TypeError, match="after model; pass them by name: instance_type=…, min_"):
        endpoint.add_variant("b", own.model, "ml.c5.xlarge")


def test_what_does_not_fit_is_named_with_what_to_pass() -> None:
    own = Own()
    endpoint, minutes = cast(Any, own.endpoint), cdk.Duration.minutes(5)
    topic = sns.Topic(own.stack, "T")
    kind = {"instance_type": ec2.InstanceType("c5.xlarge")}
    calls: dict[str, Callable[[], object]] = {
        "roll_out: bake_minutes: a Duration isn't a number; pass 5$": (
            lambda: endpoint.roll_out(canary_percent=50, bake_minutes=minutes)
        ),
        "add_alarms: p99_latency_ms: a Duration isn't a number; pass 300000$": (
            lambda: endpoint.add_alarms(notify=topic, p99_latency_ms=minutes)
        ),
        'instance_type: an InstanceType isn\'t a string; pass "ml.c5.xlarge"': (
            lambda: endpoint.add_variant("b", own.model, **kind)
        ),
        "grant_invoke: grantee: 'arn:.*' isn't a grantee; pass a role, such as iam.Role.from_role": (
            lambda: endpoint.grant_invoke("arn:aws:iam::111111111111:role/caller")
        ),
        "search/E: logs: Topic isn't a log group made by EndpointLogs; pass an EndpointLogs": (
            lambda: Endpoint(own.stack, "E", endpoint_name="e", logs=cast(Any, topic))
        ),
        "search/M: role: 'Caller' isn't a role; pass an iam.Role, for example": (
            lambda: cast(Any, Model).from_saved_model(own.stack, "M", FOLDER, role="Caller")
        ),
        "scope: it isn't in a Stack; pass a Stack": (
            lambda: cast(Any, Model).from_saved_model(cdk.App(), "M", FOLDER)
        ),
    }
    expect(ValueError, calls)


def test_a_taken_construct_id_is_named_with_its_path() -> None:
    own = Own()
    again: dict[str, Callable[[], object]] = {
        "Endpoint": lambda: Endpoint(own.stack, "Endpoint", endpoint_name="other"),
        "Model": lambda: Model.from_saved_model(own.stack, "Model", FOLDER),
    }
    for taken, call in again.items():
        said = (
            f"^search/{taken}: construct_id: '{taken}' is the ID of another construct in the same"
        )
        with pytest.raises(ValueError, match=said):
            call()


def test_a_variant_has_a_known_count_and_a_name_of_its_own() -> None:
    own = Own()
    count: Any = cdk.CfnParameter(own.stack, "Count", type="Number").value_as_number
    given: dict[str, Any] = {"instance_type": "ml.c5.xlarge"}
    with pytest.raises(ValueError, match="add_variant: min_instances: .*pass a number"):
        own.endpoint.add_variant("b", own.model, min_instances=count, **given)
    with pytest.raises(ValueError, match="name: 'primary' exists already; use a different name"):
        own.endpoint.add_variant("primary", own.model, **given)


def test_an_endpoint_waits_for_its_log_group_and_takes_no_others() -> None:
    own = Own()
    (endpoint,) = Template.from_stack(own.stack).find_resources("AWS::SageMaker::Endpoint").values()
    assert any("Logs" in name for name in endpoint["DependsOn"])

    logs = EndpointLogs(cdk.Stack(cdk.App(), "logs"), "Logs", endpoint_name="other")
    with pytest.raises(ValueError, match="logs: logs/Logs is the log group of 'other'; pass"):
        Endpoint(own.stack, "Other", endpoint_name="search", logs=logs)


@pytest.mark.long
def test_what_is_missing_or_too_late_is_an_error_that_names_the_call() -> None:
    stack = cdk.Stack(app := cdk.App(), "search", env=HERE)
    Endpoint(stack, "Endpoint", endpoint_name="search")
    with pytest.raises(Exception, match=r"no variant; call endpoint.add_variant"):
        app.synth()

    own = Own()
    topic = sns.Topic(own.stack, "Topic")
    with pytest.raises(ValueError, match="alarms: there are none; call add_alarms first"):
        _ = own.endpoint.alarms

    own = Own()
    own.endpoint.add_alarms(notify=sns.Topic(own.stack, "Topic"))
    with pytest.raises(ValueError, match="Endpoint/Alarms exists already; call add_alarms once"):
        own.endpoint.add_alarms(notify=topic)
    assert own.endpoint.alarms.of("primary", "5xx") is not None
    with pytest.raises(ValueError, match="add_variant: .*have been read.*call add_variant before"):
        own.endpoint.add_variant("b", own.model, instance_type="ml.c5.xlarge")

    own = Own()
    own.endpoint.add_dashboard()
    found = Annotations.from_stack(own.stack).find_error(
        "/search/Endpoint", Match.string_like_regexp("call add_alarms")
    )
    assert len(found) == 1
    with pytest.raises(ValueError, match=r"notify: 'on-call' isn't a topic; pass an sns.Topic"):
        own.endpoint.add_alarms(notify="on-call")  # type: ignore[arg-type]


def test_a_refused_environment_file_says_everything(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    file = tmp_path / "environments" / "prod.toml"
    file.write_text('account = "1"\nregion = "eu-west-1"\n')
    with pytest.raises(EnvironmentFileError, match=r"(?s)prod.toml is rejected.*account.*endpoint"):
        Environment(cdk.App(), "prod", file=file)
