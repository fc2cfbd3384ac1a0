"""An environment with everything that verifying looks at, deployed whole, without the CLI."""

import json
from pathlib import Path
from typing import Any

from infra.parameters.loading import ValidFile, load
from servable.package.package import pack_models
from servable.plan.synthesis import SynthesisedStack, synthesise_stacks
from servable.project import account as operations_account
from servable.verify.command import compare_stacks
from servable.verify.difference import Report
from servable_local.aws.local_aws import LocalAws
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.local_account import Account

PLACEHOLDER = "111111111111"
GOLDEN = ROOT / "examples" / "ranker" / "golden"
TEXT = f"""\
account = "{PLACEHOLDER}"
region = "us-east-1"
production = false
[endpoint]
name = "ranker"
[models.ranker]
saved_model = "examples/ranker/model"
tensorflow = "2.20"
[models.ranker.golden]
request = "examples/ranker/golden/request-rows.json"
answer = "examples/ranker/golden/answer-rows.json"
[variants.primary]
model = "ranker"
instance_type = "ml.c5.xlarge"
min_instances = 2
max_instances = 4
weight = 9
[variants.primary.scaling]
max_rps_per_instance = 10
[variants.fixed]
model = "ranker"
instance_type = "ml.c5.large"
[alarms]
p99_latency_ms = 100
notify = ["oncall@example.com"]
[rollout]
strategy = "all_at_once"
[capture]
sample_percent = 10
keep_days = 30
[security]
permissions_boundary = "arn:aws:iam::aws:policy/PowerUserAccess"
"""


class Project:
    """The file, its templates and its archive, made once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "prod.toml").write_text(TEXT)
        self.loaded = self.load()
        self.stacks = synthesise_stacks(self.loaded)
        (made,) = pack_models(self.loaded)
        assert made.path is not None  # gzip
        self.archive = made.path.read_bytes()

    def load(self, **overrides: str) -> ValidFile:
        (found,) = load(ROOT, self.folder, {"prod": overrides})
        return valid(found)


class Verified:
    """One deployment of it, in an account of its own."""

    def __init__(self, aws: LocalAws, launcher: Launcher, project: Project) -> None:
        self.account = Account(aws, launcher)
        self.project = project
        self._aws = aws
        self.launcher = launcher
        self.asked = operations_account.Account(
            region="us-east-1", number=self.account.number, aws=aws
        )
        bucket = f"cdk-hnb659fds-assets-{self.account.number}-us-east-1"
        self.client("s3").create_bucket(Bucket=bucket)
        self.bucket, self.key = bucket, self._key()
        self.client("s3").put_object(Bucket=bucket, Key=self.key, Body=project.archive)
        self.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
        )
        for stack in self.stacks():
            self.deploy(stack)

    def client(self, service: str) -> Any:
        return self.account.client(service)

    def stacks(self) -> list[SynthesisedStack]:
        return [self.own(stack) for stack in self.project.stacks]

    def main(self) -> SynthesisedStack:
        """The endpoint's own, to be changed and deployed."""
        (found,) = (stack for stack in self.stacks() if stack.kind == "endpoint")
        return found

    def own(self, stack: SynthesisedStack) -> SynthesisedStack:
        """With this account's number in it."""
        text = json.dumps(stack.template).replace(PLACEHOLDER, self.account.number)
        return SynthesisedStack(kind=stack.kind, name=stack.name, template=json.loads(text))

    def deploy(self, stack: SynthesisedStack) -> str:
        status = self.account.deploy(stack.template, name=stack.name)
        for one in self.launcher.started:
            if one.archive == self.project.archive:
                one.answer = (GOLDEN / "answer-rows.json").read_bytes()
        return status

    def _key(self) -> str:
        return next(
            str(resource["Properties"]["PrimaryContainer"]["ModelDataUrl"]).rsplit("/", 1)[-1]
            for resource in self.main().template["Resources"].values()
            if resource["Type"] == "AWS::SageMaker::Model"
        )

    def report(self, **meant: str) -> Report:
        return compare_stacks(self.project.loaded, self.stacks(), self.asked, meant=meant)

    def kinds(self) -> set[str]:
        return {difference.kind for difference in self.report().differences}

    def endpoint(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client("sagemaker").describe_endpoint(EndpointName="ranker")
        return found

    def config(self) -> dict[str, Any]:
        """The live configuration, as CreateEndpointConfig takes it."""
        name = self.endpoint()["EndpointConfigName"]
        found = self.client("sagemaker").describe_endpoint_config(EndpointConfigName=name)
        return {
            key: found[key] for key in ("ProductionVariants", "DataCaptureConfig") if key in found
        }
