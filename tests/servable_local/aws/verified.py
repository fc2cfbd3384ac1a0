"""Environments deployed whole without the CLI, to be verified: one with everything, and from examples."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from infra.parameters.loading import ValidFile, load
from servable.package.package import pack_models
from servable.plan.synthesis import SynthesisedStack, synthesise_stacks
from servable.verify.command import compare_stacks
from servable.verify.difference import Report
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.servable_local.aws.local_account import Account

PLACEHOLDER = "111111111111"
REGION = "us-east-1"  # the stand-in account's
GOLDEN = ROOT / "examples" / "ranker" / "golden"
ASKS = """
[models.{model}.golden]
request = "examples/ranker/golden/request-rows.json"
answer = "examples/ranker/golden/answer-rows.json"
"""
TEXT = f"""\
account = "{PLACEHOLDER}"
region = "us-east-1"
production = false
[endpoint]
name = "ranker"
[models.ranker]
saved_model = "examples/ranker/model"
tensorflow = "2.20"
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
{ASKS.format(model="ranker")}"""


class Written:
    """An environment file, its stacks and its archives, made once."""

    def __init__(self, loaded: ValidFile) -> None:
        self.loaded, self.stacks = loaded, synthesise_stacks(loaded)

    @cached_property
    def archives(self) -> dict[str, tuple[str, bytes]]:
        """{model: the name of its archive, and what it holds}"""
        packed = pack_models(self.loaded)
        return {one.model: (one.key, one.path.read_bytes()) for one in packed if one.path}  # gzip


class Deployed:
    """In an account of its own; its stand-in containers answer what the golden answer says."""

    def __init__(self, account: Account, written: Written, *no_capacity: str) -> None:
        account.aws.no_capacity(*no_capacity, account=account.number, region=REGION)
        self.account, self.written, self.launcher = account, written, account.launcher
        self.loaded = written.loaded
        self.endpoint = self.loaded.environment.endpoint.name
        self.asked = account.open()
        self.bucket = f"cdk-hnb659fds-assets-{account.number}-{REGION}"
        self.client("s3").create_bucket(Bucket=self.bucket)
        account.bootstrap()
        self.keys: dict[str, str] = {}
        self.publish()
        account.create_roles(self.loaded.environment)
        for stack in self.stacks():
            assert self.deploy(stack) == "CREATE_COMPLETE"

    def publish(self) -> None:
        """As the CDK CLI before it deploys: an archive under its key, or each model's under the prefix."""
        urls = [url for url in self.data_urls() if url.endswith("/")]
        prefixes: set[str | None] = {url.split("/", 3)[3] for url in urls}
        (prefix,) = prefixes or {None}
        for model, (name, archive) in self.written.archives.items():
            self.keys[model] = f"{prefix}{model}.tar.gz" if prefix else f"{name}.tar.gz"
            self.put(self.keys[model], archive)

    def put(self, key: str, body: bytes) -> None:
        self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=body)

    def client(self, service: str) -> Any:
        return self.account.client(service)

    def stacks(self) -> list[SynthesisedStack]:
        """With this account's number in them."""
        stacks, number = self.written.stacks, self.account.number
        texts = [json.dumps(each.template).replace(PLACEHOLDER, number) for each in stacks]
        both = zip(stacks, map(json.loads, texts), strict=True)
        return [replace(stack, template=template) for stack, template in both]

    def main(self) -> SynthesisedStack:
        """The endpoint's own, to be changed and deployed."""
        return next(stack for stack in self.stacks() if stack.kind == "endpoint")

    def data_urls(self) -> list[str]:
        """Of the endpoint's models."""
        resources = self.main().template["Resources"].values()
        models = [one for one in resources if one["Type"] == "AWS::SageMaker::Model"]
        return [one["Properties"]["PrimaryContainer"].get("ModelDataUrl", "") for one in models]

    def deploy(self, stack: SynthesisedStack) -> str:
        before = len(self.launcher.started)
        status = self.account.deploy(stack.template, name=stack.name)
        for one in self.launcher.started[before:]:
            one.answer = (GOLDEN / "answer-rows.json").read_bytes()
        return status

    def report(self, **meant: str) -> Report:
        return compare_stacks(self.loaded, self.stacks(), self.asked, meant=meant)

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


def written(
    folder: Path, kind: str, models: tuple[str, ...], replaced: Callable[[str], str] = str
) -> Written:
    """A file of examples/variants/, with other values by `replaced`.

    `models`: those that have a golden request.
    """
    source = ROOT / "examples" / "variants"
    texts = {
        name: (source / f"{name}.toml").read_text().replace("eu-west-1", REGION)
        for name in ("base", kind)
    }
    asks = "".join(ASKS.format(model=model) for model in models)
    (folder / "base.toml").write_text(texts["base"])
    (folder / f"{kind}.toml").write_text(replaced(texts[kind]) + asks)
    return Written(valid(next(one for one in load(ROOT, folder) if one.name == kind)))
