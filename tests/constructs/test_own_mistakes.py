"""What a beginner writes in an app of one's own: one sentence that names the argument and the remedy."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import aws_cdk as cdk
import pytest
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_sns as sns

from model_packaging.refusal import PackagingError
from servable.constructs import Alarms, Endpoint, EndpointLogs, Model, ModelNetwork, VariantSettings
from tests.conftest import RANKER
from tests.constructs.conftest import Own, own_stack

Calls = dict[str, Callable[[], object]]


def expect(kind: type[Exception], calls: Calls) -> None:
    """Each call ends with its one sentence."""
    for said, call in calls.items():
        with pytest.raises(kind, match=said) as raised:
            call()
        assert "\n" not in str(raised.value)


def test_a_variant_s_mistake_is_named_with_its_argument_and_remedy() -> None:
    own = Own.with_variant()
    count = cdk.CfnParameter(own.stack, "Count", type="Number").value_as_number
    mistakes: dict[str, dict[str, Any]] = {
        "instance_type: 'ml.c5.xlrge' isn't an instance type; did you mean ml.c5": {
            "instance_type": "ml.c5.xlrge"
        },
        "instance_type: it is missing; pass one, such as ml.c5.xlarge": {"instance_type": None},
        "instance_type: its value is known only to CloudFormation.*pass the type as a string": {
            "instance_type": cdk.Fn.import_value("type")
        },
        "max_instances: 2 is below min_instances = 3; pass 3 or more": {
            "min_instances": 3,
            "max_instances": 2,
        },
        "weight: -1.0 is out of range; allowed: 0 or more": {"weight": -1.0},
        "min_instances: '2' is not a whole number; .*leave out the quotes: 2": {
            "min_instances": "2"
        },
        "min_instances: .*pass a number": {"min_instances": count},
        "name: 'pri mary' does not have the required format; .*; write it in that format": {
            "name": "pri mary"
        },
        "name: 'primary' exists already; use a different name": {"name": "primary"},
        r"settings: \{.*\} isn't a table; pass VariantSettings\(…\)": {
            "instance_type": None,
            "settings": {"instance_type": "ml.c5.xlarge"},
        },
    }
    expect(
        ValueError,
        {
            f"add_variant: {said}": partial(own.add, **{"name": "b", **given})
            for said, given in mistakes.items()
        },
    )


def test_a_model_names_an_argument_that_does_not_fit() -> None:
    mistakes: dict[str, dict[str, Any]] = {
        "handler: 'servble' is not known; allowed: servable": {"handler": "servble"},
        "model_name: 'a b' is not a valid name; .*rename it": {"model_name": "a b"},
        "environment.A: 1 is not a string; .*quotes": {"environment": {"A": 1}},
        "tensorflow: no image has '2.99'; did you mean": {"tensorflow": "2.99"},
        "network: .*need a vpc; pass vpc, or ids": {
            "network": ModelNetwork(security_groups=cast(Any, [object()]))
        },
        "network: vpc: 'vpc-.*' isn't a VPC; pass an ec2.Vpc, .*Vpc.from_lookup": {
            "network": ModelNetwork(vpc=cast(Any, "vpc-0123456789abcdef0"))
        },
    }
    for said, given in mistakes.items():
        model = partial(Model.from_saved_model, own_stack(), "M", RANKER, **given)
        expect(ValueError, {f"search/M: {said}": model})
    # A warm-up that is one path is that file.
    with pytest.raises(PackagingError, match="none.json: cannot be read"):
        Model.from_saved_model(own_stack(), "M", RANKER, warm_up="none.json")


def test_a_text_in_place_of_a_construct_and_a_wrong_table_are_one_sentence() -> None:
    own = Own()
    stack, text = own.stack, cast(Any, "arn:aws:x:::y")
    logs = partial(EndpointLogs, stack, endpoint_name="search")
    add = partial(own.endpoint.add_variant, "b", instance_type="ml.c5.xlarge")
    archive = partial(Model.from_archive, stack, "A", key="model.tar.gz", sha256="0" * 64)
    calls: Calls = {
        "add_variant: model: .* isn't a model; pass": partial(add, text),
        "search/L: key: .* isn't a key; pass a kms.Key": partial(logs, "L", key=text),
        "search/D: retention_days: 45 is not known; allowed: 1, 3": (
            partial(logs, "D", retention_days=45)
        ),
        "bucket: .* isn't a bucket; pass its name, or s3.Bucket": partial(archive, bucket=text),
        "Alarms: p99_latency: unknown key .*p99_latency_ms": lambda: Alarms(p99_latency=80),  # type: ignore[call-arg]
        "^VariantSettings: min_instances: '2' is not a whole": lambda: VariantSettings(
            min_instances="2"  # type: ignore[arg-type]
        ),
    }
    expect(ValueError, calls)


def test_an_unknown_argument_is_named_with_the_one_to_use() -> None:
    own = Own()
    stack, variant, endpoint = own.stack, cast(Any, own.add()), cast(Any, own.endpoint)
    model, call_class, network = cast(Any, Model), cast(Any, Endpoint), cast(Any, ModelNetwork)
    calls: Calls = {
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
            lambda: model.from_saved_model(stack, "Other", RANKER, vpc=None)
        ),
        "add_alarms: p99_latncy_ms: .*; use p99_latency_ms": (
            lambda: endpoint.add_alarms(p99_latncy_ms=80)
        ),
        "ModelNetwork: zzz: unknown argument; use one of vpc, ": lambda: network(zzz=1),
        "^Endpoint: endpoint_name: missing; pass a value$": lambda: call_class(stack, "Other"),
        "after model; pass them by name: instance_type=…, min_": (
            lambda: endpoint.add_variant("b", own.model, "ml.c5.xlarge")
        ),
    }
    expect(TypeError, calls)


def test_what_does_not_fit_is_named_with_what_to_pass() -> None:
    own = Own()
    endpoint, minutes = cast(Any, own.endpoint), cdk.Duration.minutes(5)
    topic, model = sns.Topic(own.stack, "T"), cast(Any, Model).from_saved_model
    calls: Calls = {
        "roll_out: bake_minutes: a Duration isn't a number; pass 5$": (
            lambda: endpoint.roll_out(canary_percent=50, bake_minutes=minutes)
        ),
        "add_alarms: p99_latency_ms: a Duration isn't a number; pass 300000$": (
            lambda: endpoint.add_alarms(notify=topic, p99_latency_ms=minutes)
        ),
        "notify: 'on-call' isn't a topic; pass an sns.Topic": (
            lambda: endpoint.add_alarms(notify="on-call")
        ),
        'instance_type: an InstanceType isn\'t a string; pass "ml.c5.xlarge"': (
            lambda: own.add("b", instance_type=ec2.InstanceType("c5.xlarge"))
        ),
        "grant_invoke: grantee: 'arn:.*' isn't a grantee; pass a role, such as iam.Role.from_role": (
            lambda: endpoint.grant_invoke("arn:aws:iam::111111111111:role/caller")
        ),
        "search/E: logs: Topic isn't a log group made by EndpointLogs; pass an EndpointLogs": (
            lambda: Endpoint(own.stack, "E", endpoint_name="e", logs=cast(Any, topic))
        ),
        "search/M: role: 'Caller' isn't a role; pass an iam.Role, for example": (
            lambda: model(own.stack, "M", RANKER, role="Caller")
        ),
        "scope: it isn't in a Stack; pass a Stack": lambda: model(cdk.App(), "M", RANKER),
    }
    expect(ValueError, calls)


def test_a_taken_construct_id_is_named_with_its_path() -> None:
    own = Own()
    again: Calls = {
        "Endpoint": lambda: Endpoint(own.stack, "Endpoint", endpoint_name="other"),
        "Model": lambda: Model.from_saved_model(own.stack, "Model", RANKER),
    }
    said = "^search/{0}: construct_id: '{0}' is the ID of another construct in the same"
    for taken, call in again.items():
        with pytest.raises(ValueError, match=said.format(taken)):
            call()


def test_an_endpoint_waits_for_its_log_group_and_takes_no_others() -> None:
    own = Own.with_variant()
    (endpoint,) = own.synthesised.resources("AWS::SageMaker::Endpoint").values()
    assert any("Logs" in name for name in endpoint["DependsOn"])

    logs = EndpointLogs(own_stack("logs"), "Logs", endpoint_name="other")
    with pytest.raises(ValueError, match="logs: logs/Logs is the log group of 'other'; pass"):
        Endpoint(own.stack, "Other", endpoint_name="search", logs=logs)


@pytest.mark.long
def test_what_is_missing_or_too_late_is_an_error_that_names_the_call() -> None:
    stack = cdk.Stack(app := cdk.App(), "search")
    Endpoint(stack, "Endpoint", endpoint_name="search")
    with pytest.raises(Exception, match=r"no variant; call endpoint.add_variant"):
        app.synth()

    own = Own.with_variant()
    topic = sns.Topic(own.stack, "Topic")
    with pytest.raises(ValueError, match="alarms: there are none; call add_alarms first"):
        _ = own.endpoint.alarms

    own = Own.with_variant()
    own.endpoint.add_alarms(notify=sns.Topic(own.stack, "Topic"))
    with pytest.raises(ValueError, match="Endpoint/Alarms exists already; call add_alarms once"):
        own.endpoint.add_alarms(notify=topic)
    assert own.endpoint.alarms.of("primary", "5xx") is not None
    with pytest.raises(ValueError, match="add_variant: .*have been read.*call add_variant before"):
        own.add("b")

    own = Own.with_variant()
    own.endpoint.add_dashboard()
    told = [path for path, said in own.annotations("error") if "call add_alarms" in said]
    assert told == ["/search/Endpoint"]
