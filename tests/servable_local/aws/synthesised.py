"""The project's own templates, synthesised once, and deployed without the CLI.

The archive is a stand-in's: some bytes under the key that the template names.
"""

import json
import random
from typing import Any

from infra.parameters.loading import load
from infra.parameters.sources import list_environment_names
from servable.plan.synthesis import synthesise_endpoint
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.servable_local.aws.local_account import Account

ENVIRONMENTS = list_environment_names(ROOT / "environments")


def synthesise(**overrides: dict[str, str]) -> dict[str, dict[str, Any]]:
    """{environment: its template}; of those that are overridden alone, where any are."""
    found = load(ROOT, ROOT / "environments", overrides)
    return {
        one.name: synthesise_endpoint(valid(one))
        for one in found
        if one.name in (overrides or ENVIRONMENTS)
    }


def is_baking(described: dict[str, Any]) -> bool:
    """Return whether the new fleet of the endpoint's update has started and gets traffic."""
    variants = described.get("PendingDeploymentSummary", {}).get("ProductionVariants", [])
    return any(
        status["Status"] == "Baking"
        for variant in variants
        for status in variant.get("VariantStatus", [])
    )


class DeployedNames:
    """One environment in an account of its own, whatever account its file names."""

    def __init__(self, account: Account, template: dict[str, Any]) -> None:
        self.account = account
        bootstrap = template["Parameters"]["BootstrapVersion"]["Default"]
        self.account.client("ssm").put_parameter(Name=bootstrap, Value="30", Type="String")
        self.status = self.deploy(template)

    def deploy(self, template: dict[str, Any], *, wait: bool = True) -> str:
        self.archive = f"archive {random.SystemRandom().random()}".encode()
        url = self.account.put_archive(self.archive, self.archive.decode() + ".tar.gz")
        template = json.loads(json.dumps(template))
        for resource in template["Resources"].values():
            if resource["Type"] == "AWS::SageMaker::Model":
                resource["Properties"]["PrimaryContainer"]["ModelDataUrl"] = url
            if resource["Type"] == "AWS::SageMaker::Endpoint":
                self.endpoint: str = resource["Properties"]["EndpointName"]
        self.template = template
        return self.account.deploy(template, wait=wait)

    def describe(self) -> dict[str, Any]:
        return dict(self.account.client("sagemaker").describe_endpoint(EndpointName=self.endpoint))

    def alarms(self, metric: str | None = None) -> list[dict[str, Any]]:
        """The file's alarms on all traffic, by one metric: not on one fleet of an update, nor of scaling."""
        found = self.account.client("cloudwatch").describe_alarms()["MetricAlarms"]
        return [
            one
            for one in found
            if metric in (None, one.get("MetricName"))
            and "EndpointConfigName" not in [d["Name"] for d in one["Dimensions"]]
            and not one["AlarmName"].startswith("TargetTracking-")
        ]

    def containers(self) -> list[Any]:
        """The container of the archive that was deployed last."""
        return self.account.launcher.serving(self.archive)
