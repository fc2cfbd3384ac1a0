"""What `servable plan` prints of a plan, in words and as JSON, without synthesis and without AWS."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from infra.parameters.loading import ValidFile
from model_packaging.refusal import PackagingError
from servable.plan import command
from servable.plan.live import LiveState
from tests.conftest import VALID, Environment

SERVERLESS = VALID.replace(
    'instance_type = "ml.c5.xlarge"', "serverless = { memory_mib = 2048, max_concurrency = 5 }"
)


def template(name: str = "ranker", *, model: str = "a", **others: dict[str, Any]) -> dict[str, Any]:
    return {
        "Resources": {
            "Model": {
                "Type": "AWS::SageMaker::Model",
                "Properties": {"PrimaryContainer": {"ModelDataUrl": model}},
            },
            "Endpoint": {
                "Type": "AWS::SageMaker::Endpoint",
                "Properties": {"EndpointName": name, "EndpointConfigName": "c"},
            },
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
            stack_status="UPDATE_COMPLETE",
            template=template(),
            endpoint_name="ranker",
            endpoint_status="InService",
        )
        monkeypatch.setattr(command, "read_live_state", lambda loaded, client: self.live)
        monkeypatch.setattr(
            command, "synthesise_templates", lambda loaded: {"endpoint": self.after, **self.data}
        )

    def __call__(self, *options: str, text: str = VALID) -> Result:
        loaded = self._environment(text)
        (loaded.root / "cdk.json").write_text("{}")
        self._patch.chdir(loaded.root)
        return CliRunner().invoke(
            command.plan, ["prod", *options], standalone_mode=False, color=False
        )


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, environment: Environment) -> Planner:
    return Planner(monkeypatch, environment)


def test_without_a_revision_the_file_is_compared_with_what_is_live(plan: Planner) -> None:
    ran = plan()
    assert (ran.return_value, ran.stdout) == (0, "prod, against what is live: nothing changes\n")

    plan.live = LiveState()
    ran = plan()
    assert (ran.return_value, ran.stdout.splitlines()[0]) == (
        0, "prod, against what is live: creates the endpoint in one deploy",
    )  # fmt: skip
    assert ran.stdout.endswith("\nthe change:\n    cdk deploy 'prod/*'\n")


def test_with_local_it_is_the_local_aws_that_is_asked(
    plan: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def account_of(environment: object, *, local: bool) -> Any:
        asked.append(local)
        return type("Account", (), {"client": None})

    monkeypatch.setattr(command, "open_account", account_of)
    plan("--local")
    plan()
    assert asked == [True, False]


def test_an_account_that_cannot_be_read_is_one_sentence(
    plan: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(loaded: ValidFile, client: object) -> LiveState:
        raise PackagingError(Path("a.toml"), "cannot be read", "look again")

    monkeypatch.setattr(command, "read_live_state", failing)
    assert str(plan().exception) == "a.toml: cannot be read; look again"


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ({"A": 1}, {"A": 2}, "  SageMaker::Model: A: 1 -> 2"),
        ({}, {"A": 2}, "  SageMaker::Model: A: 2 (new)"),
        ({"A": 1}, {}, "  SageMaker::Model: A: 1 (gone)"),
    ],
)
def test_a_property_that_changes_stands_with_both_values(
    plan: Planner, before: dict[str, Any], after: dict[str, Any], line: str
) -> None:
    base = {"Type": "AWS::SageMaker::Model"}
    plan.live = LiveState(
        stack_status="UPDATE_COMPLETE",
        template=template(Model={**base, "Properties": before}),
        endpoint_name="ranker",
    )
    plan.after = template(Model={**base, "Properties": after})
    assert plan().stdout.splitlines()[1] == line


def test_other_resources_are_counted(plan: Planner) -> None:
    topic = {"Type": "AWS::SNS::Topic", "Properties": {}}
    plan.after = template(Topic=topic, Other=topic)
    ran = plan()
    assert "  SNS::Topic: 2 new\n" in ran.stdout
    assert ran.stdout.splitlines()[3] == "the fleet stays, and no instance is replaced"


def test_a_new_fleet_is_described_for_each_variant_and_one_deploy_has_no_number(
    plan: Planner,
) -> None:
    plan.after = template(model="b")
    printed = plan().stdout
    assert "\nthe new fleet of primary\n  instances during an update  up to 2  " in printed
    assert "the fleet stays" not in printed
    assert "\nthe change:\n    cdk deploy 'prod/*'\n" in plan().stdout


def test_a_fleet_that_scales_is_described_with_the_instances_that_run(plan: Planner) -> None:
    scaled = VALID + "[variants.primary.scaling]\nmax_rps_per_instance = 100\n"
    plan.live = LiveState(
        stack_status="UPDATE_COMPLETE",
        template=template(model="b"),
        endpoint_name="ranker",
        instances={"primary": 7},
    )
    assert "instances during an update  up to 14" in plan(text=scaled).stdout


def test_the_settings_of_an_update_stand_in_columns(plan: Planner) -> None:
    rollout = '[alarms]\np99_latency_ms = 100\n[rollout]\nstrategy = "canary"\n'
    plan.after = template(model="b")
    printed = plan(text=VALID + rollout).stdout
    shown = json.loads(plan("--json", text=VALID + rollout).stdout)["update"]["primary"]
    widths = [max(map(len, shown)), max(len(one["value"]) for one in shown.values())]
    assert len(shown) > 2
    for name, one in shown.items():
        line = f"  {name:{widths[0]}}  {one['value']:{widths[1]}}  {one['reason']}\n"
        assert line in printed


def test_a_serverless_fleet_has_no_settings_of_an_update(plan: Planner) -> None:
    plan.after = template(model="b")
    ran = plan(text=SERVERLESS)
    assert (ran.return_value, ran.exception) == (0, None)
    assert "the new fleet" not in ran.stdout


def test_two_deploys_are_numbered_and_exit_1(plan: Planner) -> None:
    scaled = VALID + "[variants.primary.scaling]\nmax_rps_per_instance = 100\n"
    kind = LiveState.from_file
    plan.after = template(model="b")
    loaded = plan._environment(scaled)
    plan.live = kind(loaded, {"endpoint": template()})
    ran = plan(text=scaled.replace("ml.c5.xlarge", "ml.m5.xlarge"))
    hold = "-c prod.variants.primary.scaling.hold=true -c prod.variants.primary.instance_type=ml.c5.xlarge"
    first, second = (
        ran.stdout.index("\n1. scaling of primary off"),
        ran.stdout.index("\n2. the change:"),
    )
    assert (ran.return_value, first < second) == (1, True)
    assert f"    cdk deploy 'prod/*' {hold}\n" in ran.stdout
    assert "prod: variant primary is scaled: SageMaker cannot change ml.c5.xlarge" in ran.stderr


def test_json_of_a_file_that_is_refused_has_the_findings_in_the_same_shape(plan: Planner) -> None:
    ran = plan("--json", text=VALID + "colour = 1\n")
    found = json.loads(ran.stdout)
    said = (found["verdict"], found["needs_attention"], found["findings"][0]["key"])
    assert (ran.return_value, said) == (1, ("refused", True, "variants.primary.colour"))
    assert "variants.primary.colour" in found["reasons"][0]
    assert (found["against"], found["changes"], found["update"]) == ("what is live", [], {})
    accepted = json.loads(plan("--json").stdout)
    assert {key: type(value) for key, value in found.items()} == {
        key: type(value) for key, value in accepted.items()
    }


def endpoint_of(settings: dict[str, Any], *variants: str) -> dict[str, Any]:
    configured = [{"VariantName": name} for name in variants]
    return template(
        Endpoint={
            "Type": "AWS::SageMaker::Endpoint",
            "Properties": {"EndpointName": "ranker", "DeploymentConfig": settings},
        },
        Config={
            "Type": "AWS::SageMaker::EndpointConfig",
            "Properties": {"ProductionVariants": configured},
        },
    )


def test_whether_other_deployment_settings_alone_replace_the_fleet_cannot_be_told(
    plan: Planner,
) -> None:
    plan.live = replace(plan.live, template=endpoint_of({"Bake": 60}, "a"))
    plan.after = endpoint_of({"Bake": 120}, "a")
    assert "whether instances are replaced is unknown: no AWS document" in plan().stdout
    assert json.loads(plan("--json").stdout)["new_fleet"] is None
    plan.after = endpoint_of({"Bake": 120}, "a", "b")
    assert json.loads(plan("--json").stdout)["new_fleet"] is True
    plan.after = endpoint_of({"Bake": 60}, "a")
    plan.after["Resources"]["Other"] = {"Type": "AWS::SNS::Topic", "Properties": {}}
    assert "the fleet stays, and no instance is replaced" in plan().stdout
    assert json.loads(plan("--json").stdout)["new_fleet"] is False


def test_variants_that_change_places_are_named_in_both_orders(plan: Planner) -> None:
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
    assert ran.stdout.splitlines()[:2] == [
        "prod, against what is live: one deploy",
        f"  data stack, S3::Bucket: {change}",
    ]
    assert json.loads(plan("--json").stdout)["changes"][0]["stack"] == "data"
    plan.data = {"data": bucket(30)}
    assert plan().stdout == "prod, against what is live: nothing changes\n"


def test_json_has_the_plan_and_what_it_means_for_each_variant(plan: Planner) -> None:
    plan.after = template(model="b")
    found = json.loads(plan("--json").stdout)
    update = found.pop("update")
    assert found == {
        "environment": "prod",
        "against": "what is live",
        "verdict": "update",
        "reasons": [],
        "changes": [
            {
                "resource": "AWS::SageMaker::Model",
                "what": "PrimaryContainer.ModelDataUrl",
                "before": "a",
                "after": "b",
                "stack": "endpoint",
            }
        ],
        "deploys": [{"command": "cdk deploy 'prod/*'", "why": "the change"}],
        "new_fleet": True,
        "components": [],
        "instances": {},
        "needs_attention": False,
        "findings": found["findings"],
    }
    assert update["primary"]["instances during an update"]["value"] == "up to 2"
    assert update["primary"]["instances during an update"]["reason"]


def test_a_folder_of_ones_own_stands_in_the_command(plan: Planner, project: Path) -> None:
    plan.after = template(model="b")
    plan._environment(VALID)
    (project / "environments").rename(project / "others")
    (project / "environments").mkdir()
    ran = plan("--environments", "others")
    assert "cdk deploy 'prod/*' -c environments=others" in ran.stdout


@pytest.mark.parametrize("name", ["ranker", "other"])
def test_another_name_of_the_endpoint_replaces_it_and_exits_1(plan: Planner, name: str) -> None:
    plan.after = template(name)
    assert plan().return_value == int(name == "other")


def test_a_revision_that_could_not_be_deployed_is_named(
    plan: Planner, monkeypatch: pytest.MonkeyPatch, environment: Environment
) -> None:
    broken = environment(VALID.replace("ml.c5.xlarge", "ml.c5.xxlarge"))

    @contextmanager
    def checked_out(*_: object) -> Iterator[dict[str, ValidFile]]:
        yield {"prod": broken}

    monkeypatch.setattr(command, "check_out_revision", checked_out)
    failed = str(plan("--against", "main").exception)
    assert failed.startswith("main: could not be deployed: ")
    assert failed.endswith("; pass a different revision")


def test_an_environment_that_the_revision_lacks_is_created(
    plan: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def checked_out(*_: object) -> Iterator[dict[str, ValidFile]]:
        yield {}

    monkeypatch.setattr(command, "check_out_revision", checked_out)
    assert plan("--against", "main").stdout.startswith("prod, against main: creates the endpoint")
