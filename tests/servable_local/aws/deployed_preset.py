"""An environment of examples/ deployed without the CLI: both its stacks, in an account of its own."""

import copy
import json
from typing import Any

from servable_local.aws.local_aws import LocalAws
from tests.presets import environments, templates
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.local_account import Account

IMAGE = "763104351884.dkr.ecr.eu-west-1.amazonaws.com/tensorflow-inference:2.20-cpu-py312"
PLACEHOLDER = "111111111111"


class Preset:
    """`archive` is what the stand-in containers serve, and what they answer with."""

    def __init__(self, aws: LocalAws, launcher: Launcher, name: str) -> None:
        self.account = Account(aws, launcher)
        environment = environments()[name].environment
        self.region = environment.region
        self.account.create_roles(environment)
        text = json.dumps(templates(name))
        self.templates = json.loads(text.replace(PLACEHOLDER, self.account.number))
        self.archive = f"archive of {name} {self.account.number}"
        bootstrap = self.templates["endpoint"]["Parameters"]["BootstrapVersion"]["Default"]
        self.client("ssm").put_parameter(Name=bootstrap, Value="30", Type="String")
        for stack in ("data", "endpoint"):
            if stack in self.templates:
                assert self.deploy(stack) == "CREATE_COMPLETE"

    def client(self, service: str) -> Any:
        return self.account.client(service)

    def deploy(self, stack: str = "endpoint") -> str:
        template = copy.deepcopy(self.templates[stack])
        for number, (key, one) in enumerate(template["Resources"].items()):
            if one["Type"] == "AWS::SageMaker::Model":
                container = one["Properties"]["PrimaryContainer"]
                if container.get("Mode") == "MultiModel":
                    container["ModelDataUrl"] = self._models()
                elif "ModelPackageName" in container:
                    container["ModelPackageName"] = self._package()
                elif "ModelDataSource" in container:
                    file = self.account.put_archive(self.archive.encode(), f"{number}/1/model.pb")
                    source = container["ModelDataSource"]["S3DataSource"]
                    source["S3Uri"] = file.removesuffix("1/model.pb")
                else:
                    content = f"{self.archive} {'next' if 'next' in key else 'primary'}"
                    container["ModelDataUrl"] = self.account.put_archive(
                        content.encode(), f"{number}.tar.gz"
                    )
        status = self.account.deploy(template, name=self._name(stack))
        if status.endswith("ROLLBACK_COMPLETE"):
            print(self._reasons(stack))
        return status

    def _name(self, stack: str) -> str:
        # The data stack's exports carry its name, which the other imports.
        return next(self._exporting()) if stack == "data" else "stack"

    def _exporting(self) -> Any:
        for output in self.templates["data"]["Outputs"].values():
            if "Export" in output:
                yield output["Export"]["Name"].rsplit("-queue", 1)[0].rsplit("-samples", 1)[0]

    def _package(self) -> str:
        """An approved version of the registry, with the archive; returns its ARN."""
        url = self.account.put_archive(self.archive.encode(), "package.tar.gz")
        return self.account.register_version({"Image": IMAGE, "ModelDataUrl": url})

    def _models(self) -> str:
        for model in ("berlin", "paris"):
            url = self.account.put_archive(model.encode(), f"models/{model}.tar.gz")
        return url.rpartition("/")[0] + "/"

    def _reasons(self, stack: str) -> list[str]:
        events = self.client("cloudformation").describe_stack_events(StackName=self._name(stack))
        return [
            f"{event['LogicalResourceId']}: {event['ResourceStatusReason']}"
            for event in events["StackEvents"]
            if "ResourceStatusReason" in event
        ]

    def resources(self, kind: str) -> list[dict[str, Any]]:
        """Their properties, as the endpoint's template has them."""
        return [
            resource["Properties"]
            for resource in self.templates["endpoint"]["Resources"].values()
            if resource["Type"] == kind
        ]

    @property
    def endpoint(self) -> str:
        (one,) = self.resources("AWS::SageMaker::Endpoint")
        return str(one["EndpointName"])

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the endpoint that is live, as boto3 reads it."""
        sagemaker = self.client("sagemaker")
        live = sagemaker.describe_endpoint(EndpointName=self.endpoint)["EndpointConfigName"]
        found: dict[str, Any] = sagemaker.describe_endpoint_config(EndpointConfigName=live)
        return found
