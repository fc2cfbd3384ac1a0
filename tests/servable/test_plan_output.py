"""What `servable plan` prints of a plan, in words and as JSON, without synthesis and without AWS."""

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from click.testing import CliRunner, Result

from model_packaging.refusal import PackagingError
from servable.plan import command
from servable.plan.live import LiveState
from tests.conftest import VALID, Environment
from tests.servable.test_check_against import SCALED, SERVERLESS


def template(name: str = "ranker", *, model: str = "a", **others: dict[str, Any]) -> dict[str, Any]:
    container = {"PrimaryContainer": {"ModelDataUrl": model}}
    endpoint = {"EndpointName": name, "EndpointConfigName": "c"}
    return {
        "Resources": {
            "Model": {"Type": "AWS::SageMaker::Model", "Properties": container},
            "Endpoint": {"Type": "AWS::SageMaker::Endpoint", "Properties": endpoint},
            **others,
        }
    }


class Planner:
    """`servable plan prod` where CDK and AWS give the templates of `before` and `after`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, environment: Environment) -> None:
        self._patch, self._environment = monkeypatch, environment
        self.after = template()
        self.data: dict[str, Any] = {}
        self.live = LiveState(
            stack_status="UPDATE_COMPLETE", template=template(), endpoint_name="ranker",
            endpoint_status="InService",
        )  # fmt: skip
        monkeypatch.setattr(command, "read_live_state", lambda loaded, client: self.live)
        monkeypatch.setattr(command, "synthesise_templates", self.synthesise)

    def synthesise(self, loaded: object) -> dict[str, Any]:
        return {"endpoint": self.after, **self.data}

    def __call__(self, *options: str, text: str | None = VALID) -> Result:
        if text is not None:
            loaded = self._environment(text)
            (loaded.root / "cdk.json").write_text("{}")
            self._patch.chdir(loaded.root)
        words = ["prod", *options]
        return CliRunner().invoke(command.plan, words, standalone_mode=False, color=False)

    def json(self, *options: str, **how: Any) -> Any:
        return json.loads(self("--json", *options, **how).stdout)


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, environment: Environment) -> Planner:
    return Planner(monkeypatch, environment)


def test_without_a_revision_the_file_is_compared_with_what_is_live(plan: Planner) -> None:
    ran = plan()
    assert (ran.return_value, ran.stdout) == (0, "prod, against what is live: nothing changes\n")

    plan.live = LiveState()
    ran = plan()
    assert ran.return_value == 0
    assert ran.stdout.startswith("prod, against what is live: creates the endpoint in one deploy\n")
    assert ran.stdout.endswith("\nthe change:\n    cdk deploy 'prod/*'\n")


def test_with_local_it_is_the_local_aws_that_is_asked_and_a_refusal_is_one_sentence(
    plan: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Mock()
    monkeypatch.setattr(command, "open_account", opened)
    plan("--local")
    plan()
    assert [call.kwargs["local"] for call in opened.call_args_list] == [True, False]
    failure = PackagingError(Path("a.toml"), "cannot be read", "look again")
    monkeypatch.setattr(command, "read_live_state", Mock(side_effect=failure))
    assert str(plan().exception) == "a.toml: cannot be read; look again"


def test_a_property_that_changes_stands_with_both_values_and_others_are_counted(
    plan: Planner,
) -> None:
    def model(properties: dict[str, Any]) -> dict[str, Any]:
        return template(Model={"Type": "AWS::SageMaker::Model", "Properties": properties})

    for before, after, line in (
        ({"A": 1}, {"A": 2}, "  SageMaker::Model: A: 1 -> 2"),
        ({}, {"A": 2}, "  SageMaker::Model: A: 2 (new)"),
        ({"A": 1}, {}, "  SageMaker::Model: A: 1 (gone)"),
    ):
        plan.live, plan.after = replace(plan.live, template=model(before)), model(after)
        assert plan().stdout.splitlines()[1] == line
    topic = {"Type": "AWS::SNS::Topic", "Properties": {}}
    plan.live = replace(plan.live, template=template())
    plan.after = template(Topic=topic, Other=topic)
    printed = plan().stdout
    assert "  SNS::Topic: 2 new\n" in printed
    assert printed.splitlines()[3] == "the fleet stays, and no instance is replaced"
    # Another name replaces the endpoint.
    plan.after = template("other")
    assert plan().return_value == 1


def test_a_new_fleet_is_described_for_each_variant_with_its_settings_in_columns(
    plan: Planner,
) -> None:
    plan.after = template(model="b")
    ran = plan()
    assert (ran.return_value, "the fleet stays" in ran.stdout) == (0, False)
    assert "\nthe new fleet of primary\n  instances during an update  up to 2  " in ran.stdout
    assert "\nthe change:\n    cdk deploy 'prod/*'\n" in ran.stdout
    ran = plan(text=SERVERLESS)
    assert (ran.return_value, "the new fleet" in ran.stdout) == (0, False)
    plan.live = replace(plan.live, instances={"primary": 7})
    assert "instances during an update  up to 14" in plan(text=SCALED).stdout

    rollout = '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'
    plan.after = template(model="b")
    printed = plan(text=VALID + rollout).stdout
    shown = plan.json(text=VALID + rollout)["update"]["primary"]
    widths = [max(map(len, shown)), max(len(one["value"]) for one in shown.values())]
    assert len(shown) > 2
    for name, one in shown.items():
        line = f"  {name:{widths[0]}}  {one['value']:{widths[1]}}  {one['reason']}\n"
        assert line in printed


def test_two_deploys_are_numbered_and_exit_1(plan: Planner) -> None:
    plan.after = template(model="b")
    plan.live = LiveState.from_file(plan._environment(SCALED), {"endpoint": template()})
    ran = plan(text=SCALED.replace("ml.c5.xlarge", "ml.m5.xlarge"))
    hold = "-c prod.variants.primary.scaling.hold=true -c prod.variants.primary.instance_type=ml.c5.xlarge"
    assert ran.return_value == 1
    assert re.search(r"\n1\. scaling of primary off(.|\n)*\n2\. the change:", ran.stdout)
    assert f"    cdk deploy 'prod/*' {hold}\n" in ran.stdout
    assert "prod: variant primary is scaled: SageMaker cannot change ml.c5.xlarge" in ran.stderr


def test_json_of_a_file_that_is_refused_has_the_findings_in_the_same_shape(plan: Planner) -> None:
    ran = plan("--json", text=VALID + "colour = 1\n")
    found = json.loads(ran.stdout)
    said = (found["verdict"], found["needs_attention"], found["findings"][0]["key"])
    assert (ran.return_value, said) == (1, ("refused", True, "variants.primary.colour"))
    assert "variants.primary.colour" in found["reasons"][0]
    assert (found["against"], found["changes"], found["update"]) == ("what is live", [], {})
    types, accepted = (
        {key: type(value) for key, value in each.items()} for each in (found, plan.json())
    )
    assert types == accepted


def endpoint_of(settings: dict[str, Any], *variants: str) -> dict[str, Any]:
    endpoint = {"EndpointName": "ranker", "DeploymentConfig": settings}
    config = {"ProductionVariants": [{"VariantName": name} for name in variants]}
    return template(
        Endpoint={"Type": "AWS::SageMaker::Endpoint", "Properties": endpoint},
        Config={"Type": "AWS::SageMaker::EndpointConfig", "Properties": config},
    )


def test_what_cannot_be_told_of_the_fleet_is_said_and_variants_are_named_in_both_orders(
    plan: Planner,
) -> None:
    plan.live = replace(plan.live, template=endpoint_of({"Bake": 60}, "a"))
    plan.after = endpoint_of({"Bake": 120}, "a")
    assert "whether instances are replaced is unknown: no AWS document" in plan().stdout
    assert plan.json()["new_fleet"] is None
    plan.after = endpoint_of({"Bake": 120}, "a", "b")
    assert plan.json()["new_fleet"] is True
    plan.after = endpoint_of({"Bake": 60}, "a")
    plan.after["Resources"]["Other"] = {"Type": "AWS::SNS::Topic", "Properties": {}}
    assert "the fleet stays, and no instance is replaced" in plan().stdout
    assert plan.json()["new_fleet"] is False

    plan.live = replace(plan.live, template=endpoint_of({}, "a", "b"))
    plan.after = endpoint_of({}, "b", "a")
    ran = plan().stdout
    assert "SageMaker::EndpointConfig: order of ProductionVariants: a, b -> b, a" in ran
    assert "the new fleet of primary" in ran
    plan.after = endpoint_of({}, "a", "b", "c")
    assert "order of" not in plan().stdout


def bucket(days: int) -> dict[str, Any]:
    rules = [{"Id": "samples", "ExpirationInDays": days}]
    properties = {"LifecycleConfiguration": {"Rules": rules}}
    return {"Resources": {"Bucket": {"Type": "AWS::S3::Bucket", "Properties": properties}}}


def test_a_change_of_the_data_stack_is_shown_and_is_one_deploy(plan: Planner) -> None:
    plan.live = replace(plan.live, data_template=bucket(30))
    plan.data = {"data": bucket(60)}
    ran = plan()
    change = "LifecycleConfiguration.Rules[samples].ExpirationInDays: 30 -> 60"
    first, second, *_ = ran.stdout.splitlines()
    assert first == "prod, against what is live: one deploy"
    assert second == f"  data stack, S3::Bucket: {change}"
    assert plan.json()["changes"][0]["stack"] == "data"
    plan.data = {"data": bucket(30)}
    assert plan().stdout == "prod, against what is live: nothing changes\n"


def test_json_has_the_plan_and_what_it_means_for_each_variant(plan: Planner, project: Path) -> None:
    plan.after = template(model="b")
    found = plan.json()
    update = found.pop("update")["primary"]["instances during an update"]
    assert (update["value"], bool(update["reason"])) == ("up to 2", True)
    change = {"resource": "AWS::SageMaker::Model", "what": "PrimaryContainer.ModelDataUrl",
              "before": "a", "after": "b", "stack": "endpoint"}  # fmt: skip
    assert found == {
        "environment": "prod", "against": "what is live", "verdict": "update", "reasons": [],
        "changes": [change], "deploys": [{"command": "cdk deploy 'prod/*'", "why": "the change"}],
        "new_fleet": True, "components": [], "instances": {}, "needs_attention": False,
        "findings": found["findings"],
    }  # fmt: skip
    # A folder of one's own stands in the command.
    (project / "environments").rename(project / "others")
    (project / "environments").mkdir()
    (deploy,) = plan.json("--environments", "others", text=None)["deploys"]
    assert deploy["command"] == "cdk deploy 'prod/*' -c environments=others"


def test_a_revision_that_could_not_be_deployed_is_named_and_a_new_environment_created(
    plan: Planner, monkeypatch: pytest.MonkeyPatch, environment: Environment
) -> None:
    broken = environment(VALID.replace("ml.c5.xlarge", "ml.c5.xxlarge"))
    monkeypatch.setattr(command, "check_out_revision", lambda *_: nullcontext({"prod": broken}))
    failed = str(plan("--against", "main").exception)
    assert re.fullmatch("main: could not be deployed: .*; pass a different revision", failed)
    monkeypatch.setattr(command, "check_out_revision", lambda *_: nullcontext({}))
    assert plan("--against", "main").stdout.startswith("prod, against main: creates the endpoint")
