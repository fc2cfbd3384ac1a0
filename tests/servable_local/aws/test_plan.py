"""`servable plan` against what is live, and what then becomes of the deploys that it names."""

import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest
from botocore.exceptions import ClientError

from infra.constructs.access.pipeline_role import PLAN_LOOKS
from infra.parameters.environment import Environment, build_stack_name
from infra.parameters.loading import ValidFile, load
from infra.preflight.check import check, select_errors
from servable.plan.live import read_live_state
from servable.plan.plan import DeployPlan, add_old_stack, build_plan
from servable.plan.synthesis import synthesise_endpoint
from servable.project.environments import Project
from stacks.pipeline_stack import _list_plan_reads
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.servable.test_check_against import git
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long

ENV, STACK, ENDPOINT = "staging", "ranker-staging-endpoint", "ranker-staging"
OTHER_TYPE = {"variants.primary.instance_type": "ml.c5.9xlarge"}
PROTECTED = {"endpoint.protect": "true"}
OTHER_SETTING = {"variants.primary.container.tfs_processes": "2"}


class Live:
    """environments/staging.toml in an account of its own."""

    def __init__(self, account: Account) -> None:
        self.account, self.client, self.clock = account, account.client, account.launcher.clock
        account.bootstrap()
        self.archive = account.put_archive(b"an archive")

    def loaded(self, overrides: dict[str, str]) -> ValidFile:
        given = {ENV: {"account": self.account.number, "region": "us-east-1", **overrides}}
        found = load(ROOT, ROOT / "environments", given)
        (one,) = [one for one in found if one.name == ENV]
        assert select_errors(check(one)) == []
        return valid(one)

    def plan(self, **overrides: str) -> DeployPlan:
        one = self.loaded(overrides)
        now = read_live_state(one, self.client)
        made = {"endpoint": self.template(one)}
        return build_plan(one, now, made, against="what is live", folder="environments")

    def template(self, one: ValidFile) -> dict[str, Any]:
        found = synthesise_endpoint(one)
        for resource in found["Resources"].values():
            if resource["Type"] == "AWS::SageMaker::Model":
                resource["Properties"]["PrimaryContainer"]["ModelDataUrl"] = self.archive
        return found

    def deploy(self, **overrides: str) -> str:
        """The status in which the stack comes to rest, every bake over."""
        self.account.deploy(self.template(self.loaded(overrides)), STACK, wait=False)
        for _ in range(2000):
            # Only a bake needs the clock: in fifteen minutes without traffic, scaling removes an instance.
            if self.bakes():
                self.clock.advance(minutes=1)
            if not self.account.status(STACK).endswith("_IN_PROGRESS"):
                break
            time.sleep(0.02)
        return self.account.settled(STACK)

    def bakes(self) -> bool:
        """Whether an update of the endpoint waits for its clock."""
        try:
            return "PendingDeploymentSummary" in self.described()
        except ClientError:
            return False  # it does not exist yet

    def command(self, command: str) -> str:
        """What `cdk deploy … -c ENV.KEY=VALUE` would deploy."""
        words = shlex.split(command)
        assert words[:3] == ["cdk", "deploy", f"{ENV}/*"]
        pairs = [word.removeprefix(f"{ENV}.").split("=", 1) for word in words[4::2]]
        return self.deploy(**dict(pairs))

    def described(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client("sagemaker").describe_endpoint(EndpointName=ENDPOINT)
        return found

    def live_type(self) -> str:
        name = self.described()["EndpointConfigName"]
        config = self.client("sagemaker").describe_endpoint_config(EndpointConfigName=name)
        return str(config["ProductionVariants"][0]["InstanceType"])

    def scale(self, instances: int) -> None:
        """As Application Auto Scaling would."""
        self.account.change_capacities(
            ENDPOINT, VariantName="primary", DesiredInstanceCount=instances
        )


@pytest.fixture(scope="module")
def deployed(accounts: Account) -> Live:
    """As the file is; no test of these changes it."""
    made = Live(accounts.another())
    assert made.deploy() == "CREATE_COMPLETE"
    return made


def test_the_role_of_pull_requests_may_ask_everything_that_planning_asks(deployed: Live) -> None:
    asked: set[str] = set()

    def note(model: Any, **_: Any) -> None:
        metadata = model.service_model.metadata
        prefix = metadata.get("signingName", metadata["endpointPrefix"])
        asked.add(f"{prefix}:{model.name}")

    services = ("application-autoscaling", "cloudformation", "logs", "sagemaker", "sts")
    one = deployed.loaded({})
    assert isinstance(one, ValidFile)
    for service in services:
        deployed.client(service).meta.events.register("before-call", note, unique_id="planned")
    read_live_state(one, deployed.client)
    # Log groups are asked for where the stack has none of the name.
    read_live_state(deployed.loaded({"service": "another"}), deployed.client)
    for service in services:
        deployed.client(service).meta.events.unregister("before-call", note, unique_id="planned")
    allowed = {*PLAN_LOOKS, *_list_plan_reads(cdk.Stack(), one.name, one.environment)}
    # Everybody may ask who they are.
    assert asked - {"sts:GetCallerIdentity"} == allowed


def plan_moved(made: Live, folder: Path, **overrides: str) -> DeployPlan:
    """Plan from the state of AWS, where the last commit of a project is what is deployed."""
    for name in ("base", "staging"):
        text = (ROOT / "environments" / f"{name}.toml").read_text()
        text = re.sub("(?m)^account .*", f'account = "{made.account.number}"', text)
        text = re.sub("(?m)^region .*", 'region = "us-east-1"', text)
        (folder / "environments").mkdir(exist_ok=True)
        (folder / "environments" / f"{name}.toml").write_text(text)
    git(folder, "init", "--quiet")
    git(folder, "add", "environments")
    git(folder, "commit", "--quiet", "--message", "deployed")

    def clients(environment: Environment) -> Any:
        place = {"account": environment.account, "region": environment.region}
        return lambda service: made.account.aws.client(service, **place)

    one = made.loaded(overrides)
    now = read_live_state(one, clients(one.environment))
    now = add_old_stack(now, one, Project(str(folder / "environments")), clients)
    templates = {"endpoint": made.template(one)}
    return build_plan(one, now, templates, against="what is live", folder="environments")


def deploy_moved(made: Live, **overrides: str) -> tuple[str, str]:
    """Deploy into the place that the overrides name; return (status of the stack, reasons of failures)."""
    one = made.loaded(overrides)
    place = {"account": one.environment.account, "region": one.environment.region}
    made.account.aws.client("ssm", **place).put_parameter(
        Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String", Overwrite=True
    )
    cloudformation = made.account.aws.client("cloudformation", **place)
    name = build_stack_name(ENV, one.environment, "endpoint")
    cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(made.template(one)))
    for _ in range(1000):
        status = str(cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"])
        if not status.endswith("_IN_PROGRESS"):
            break
        time.sleep(0.02)
    events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
    return status, " ".join(event.get("ResourceStatusReason", "") for event in events)


@pytest.mark.parametrize(
    "overrides",
    [{"region": "us-west-2"}, {"service": "another", "endpoint.name": "another-staging"}],
    ids=["region", "service"],
)
def test_a_moved_environment_makes_a_second_endpoint_and_the_first_one_stays(
    deployed: Live, overrides: dict[str, str], tmp_path: Path
) -> None:
    plan = plan_moved(deployed, tmp_path, **overrides)
    assert (plan.verdict, plan.needs_attention) == ("second endpoint", True)
    assert f"{STACK} in us-east-1 of account {deployed.account.number} stays" in plan.reasons[0]

    here = deployed.described() | {"ResponseMetadata": None}
    status, reasons = deploy_moved(deployed, **overrides)
    assert status == "CREATE_COMPLETE", reasons
    place = {"region": "us-east-1"} | overrides
    sagemaker = deployed.account.aws.client(
        "sagemaker", account=deployed.account.number, region=place["region"]
    )
    made = sagemaker.describe_endpoint(EndpointName=place.get("endpoint.name", ENDPOINT))
    assert made["EndpointStatus"] == "InService"
    assert deployed.described() | {"ResponseMetadata": None} == here
    assert made["EndpointArn"] != here["EndpointArn"]


def test_a_renamed_service_fails_at_the_name_that_the_plan_says_is_taken(
    deployed: Live, tmp_path: Path
) -> None:
    plan = plan_moved(deployed, tmp_path, service="renamed")
    assert (plan.verdict, plan.deploys) == ("refused", [])
    assert f"{STACK} has the endpoint {ENDPOINT}" in plan.reasons[0]
    status, reasons = deploy_moved(deployed, service="renamed")
    assert status == "ROLLBACK_COMPLETE"
    assert "already exists" in reasons
    assert deployed.described()["EndpointStatus"] == "InService"


def test_what_is_not_there_is_created_unless_an_earlier_endpoint_left_its_log_group(
    account: Account,
) -> None:
    made = Live(account)
    made.client("logs").create_log_group(logGroupName=f"/aws/sagemaker/Endpoints/{ENDPOINT}")
    refused = made.plan()
    assert (refused.verdict, made.deploy()) == ("refused", "ROLLBACK_COMPLETE")

    words = shlex.split(refused.reasons[0].split("`")[1])
    made.client("logs").delete_log_group(logGroupName=words[words.index("--log-group-name") + 1])
    plan = made.plan()
    assert (plan.verdict, plan.needs_attention) == ("create", False)
    assert [one.command for one in plan.deploys] == [
        f"cdk deploy 'staging/*' -c staging.account={made.account.number} "
        "-c staging.region=us-east-1"
    ]


def test_each_change_of_the_file_has_its_plan(deployed: Live) -> None:
    plan = deployed.plan()
    assert (plan.verdict, plan.changes, plan.deploys) == ("nothing", [], [])
    assert plan.instances == {"primary": 2}

    plan = deployed.plan(**OTHER_SETTING)
    assert (plan.verdict, plan.new_fleet, plan.needs_attention) == ("update", True, False)
    (shown,) = (one for one in plan.changes if "SAGEMAKER_TFS_INSTANCE_COUNT" in one.what)
    assert (shown.before, shown.after) == ("4", "2")

    plan = deployed.plan(**{"alarms.cpu_percent": "80"})
    assert (plan.verdict, plan.new_fleet) == ("update", False)

    plan = deployed.plan(**{"endpoint.name": "ranker-new"})
    assert (plan.verdict, plan.needs_attention) == ("replace", True)
    assert "deletes ranker-staging and recreates it as ranker-new" in plan.reasons[0]

    plan = deployed.plan(**OTHER_TYPE)
    assert (plan.verdict, len(plan.deploys), plan.needs_attention) == ("two deploys", 2, True)
    first = plan.deploys[0].command
    assert "-c staging.variants.primary.instance_type=ml.c5.4xlarge" in first
    assert "-c staging.variants.primary.scaling.hold=true" in first

    # An endpoint that is not the stack's own is in the way.
    one = deployed.loaded({"service": "another"})
    now = read_live_state(one, deployed.client)
    made = {"endpoint": deployed.template(one)}
    plan = build_plan(one, now, made, against="what is live", folder="environments")
    assert (plan.verdict, plan.deploys) == ("refused", [])


def test_two_deploys_change_the_type_that_one_cannot(account: Account) -> None:
    made = Live(account)
    made.deploy()
    made.scale(3)
    before = made.described()["EndpointConfigName"]
    assert made.deploy(**OTHER_TYPE) == "UPDATE_ROLLBACK_COMPLETE"
    events = made.client("cloudformation").describe_stack_events(StackName=STACK)["StackEvents"]
    reasons = [event.get("ResourceStatusReason", "") for event in events]
    assert any("scal" in reason.lower() and "primary" in reason for reason in reasons)
    after = made.described()["EndpointConfigName"], made.live_type()
    assert after == (before, "ml.c5.4xlarge")

    first, second = made.plan(**OTHER_TYPE).deploys
    assert made.command(first.command) == "UPDATE_COMPLETE"
    between = made.plan(**OTHER_TYPE)
    assert (between.verdict, between.needs_attention) == ("update", False)
    assert made.command(second.command) == "UPDATE_COMPLETE"
    assert made.live_type() == "ml.c5.9xlarge"
    scaling = made.client("application-autoscaling")
    (target,) = scaling.describe_scalable_targets(ServiceNamespace="sagemaker")["ScalableTargets"]
    assert target["ResourceId"] == "endpoint/ranker-staging/variant/primary"
    assert made.described()["ProductionVariants"][0]["CurrentInstanceCount"] == 3

    # Also once scaling was told to let go.
    scaling.deregister_scalable_target(
        **{key: target[key] for key in ("ServiceNamespace", "ResourceId", "ScalableDimension")}
    )
    held = {"variants.primary.scaling.hold": "true"}
    assert made.deploy(**held) == "UPDATE_COMPLETE"
    assert made.live_type() == "ml.c5.4xlarge"


def test_a_locked_stack_deploys_again_by_the_commands_of_the_plan(account: Account) -> None:
    """A protected environment whose first deployment failed, as `cdk deploy` leaves it."""
    locked = Live(account)
    locked.archive = locked.account.put_archive(b"BROKEN", "broken.tar.gz")
    assert locked.deploy(**PROTECTED) == "ROLLBACK_COMPLETE"
    cloudformation = locked.client("cloudformation")
    cloudformation.update_termination_protection(StackName=STACK, EnableTerminationProtection=True)
    with pytest.raises(ClientError, match="Could not find"):
        locked.described()
    unlock, again = locked.plan(**PROTECTED).deploys
    words = shlex.split(unlock.command)
    name = words[words.index("--stack-name") + 1]
    assert words[2:4] == ["update-termination-protection", "--no-enable-termination-protection"]
    with pytest.raises(ClientError, match="while TerminationProtection is enabled"):
        cloudformation.delete_stack(StackName=name)
    cloudformation.update_termination_protection(StackName=name, EnableTerminationProtection=False)
    assert locked.account.delete(name) == "DELETE_COMPLETE"  # as `cdk deploy` begins
    locked.archive = locked.account.put_archive(b"an archive")
    assert locked.command(again.command) == "CREATE_COMPLETE"
