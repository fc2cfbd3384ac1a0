"""An environment of examples/variants/, deployed whole and with its golden request, to be verified."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.parameters.environment import build_stack_name
from infra.parameters.loading import ValidFile, load
from servable.package.package import pack_models
from servable.plan.synthesis import SynthesisedStack
from servable.project import account as operations_account
from servable.verify.command import compare_stacks
from servable.verify.difference import Report
from servable_local.aws.local_aws import LocalAws
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.presets import synthesised
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.local_account import Account

PLACEHOLDER = "111111111111"
REGION = "us-east-1"  # the stand-in account's
GOLDEN = ROOT / "examples" / "ranker" / "golden"
ASKS = """
[models.{model}.golden]
request = "examples/ranker/golden/request-rows.json"
answer = "examples/ranker/golden/answer-rows.json"
"""


def written(
    folder: Path,
    kind: str,
    models: tuple[str, ...],
    replaced: Callable[[str], str] = lambda text: text,
) -> ValidFile:
    """`models`: those that have a golden request. `replaced` gives the file other values."""
    source = ROOT / "examples" / "variants"
    base = (source / "base.toml").read_text().replace("eu-west-1", REGION)
    (folder / "base.toml").write_text(base)
    asks = "".join(ASKS.format(model=model) for model in models)
    text = (source / f"{kind}.toml").read_text().replace("eu-west-1", REGION)
    (folder / f"{kind}.toml").write_text(replaced(text) + asks)
    return valid(next(loaded for loaded in load(ROOT, folder) if loaded.name == kind))


class VerifiedKind:
    """In an account of its own; its stand-in containers answer what the golden answer says."""

    def __init__(
        self,
        aws: LocalAws,
        launcher: Launcher,
        loaded: ValidFile,
        no_capacity: tuple[str, ...] = (),
    ) -> None:
        self.loaded, self.endpoint = loaded, loaded.environment.endpoint.name
        self.account = Account(aws, launcher)
        self.asked = operations_account.Account(region=REGION, number=self.account.number, aws=aws)
        self.bucket = f"cdk-hnb659fds-assets-{self.account.number}-{REGION}"
        self.client("s3").create_bucket(Bucket=self.bucket)
        self.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
        )
        self.stacks = [
            SynthesisedStack(
                kind=kind,
                name=build_stack_name(loaded.name, loaded.environment, kind),
                template=json.loads(json.dumps(template).replace(PLACEHOLDER, self.account.number)),
            )
            for kind, template in sorted(synthesised(loaded).items())  # data, then endpoint
        ]
        self._publish()
        self.account.create_roles(loaded.environment)
        aws.no_capacity(*no_capacity, account=self.account.number, region=REGION)
        before = len(launcher.started)
        for stack in self.stacks:
            assert self.account.deploy(stack.template, name=stack.name) == "CREATE_COMPLETE"
        for one in launcher.started[before:]:
            one.answer = (GOLDEN / "answer-rows.json").read_bytes()

    def _publish(self) -> None:
        """What the CDK CLI publishes: an archive under its key, or each model's under the prefix."""
        urls = [
            resource["Properties"]["PrimaryContainer"].get("ModelDataUrl", "")
            for resource in self.stacks[-1].template["Resources"].values()
            if resource["Type"] == "AWS::SageMaker::Model"
        ]
        (prefix,) = {url.split("/", 3)[3] for url in urls if url.endswith("/")} or {None}
        self.keys = {}
        for one in pack_models(self.loaded):
            assert one.path is not None  # gzip
            key = f"{prefix}{one.model}.tar.gz" if prefix else f"{one.key}.tar.gz"
            self.keys[one.model] = key
            self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=one.path.read_bytes())

    def client(self, service: str) -> Any:
        return self.account.client(service)

    def report(self) -> Report:
        return compare_stacks(self.loaded, self.stacks, self.asked, meant={})

    def config(self) -> dict[str, Any]:
        """The live configuration, as CreateEndpointConfig takes it."""
        sagemaker = self.client("sagemaker")
        name = sagemaker.describe_endpoint(EndpointName=self.endpoint)["EndpointConfigName"]
        found = sagemaker.describe_endpoint_config(EndpointConfigName=name)
        asked = ("ProductionVariants", "ShadowProductionVariants", "AsyncInferenceConfig")
        return {key: found[key] for key in asked if key in found}

    def replace_config(self, config: dict[str, Any]) -> None:
        """By hand, past CloudFormation."""
        sagemaker = self.client("sagemaker")
        sagemaker.create_endpoint_config(EndpointConfigName="by-hand", **config)
        sagemaker.update_endpoint(EndpointName=self.endpoint, EndpointConfigName="by-hand")
        sagemaker.get_waiter("endpoint_in_service").wait(
            EndpointName=self.endpoint, WaiterConfig={"Delay": 0.05, "MaxAttempts": 200}
        )
