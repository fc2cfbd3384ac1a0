"""One account of the local AWS, what tests do with it, and queues of it that hear its events."""

import json
import random
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.parameters.environment import Environment
from servable.project import account as operations_account
from servable_local.aws.clock import TICK_SECONDS
from servable_local.aws.cloudformation.api import CloudFormationApi
from servable_local.aws.local_aws import REGION, LocalAws
from servable_local.aws.sagemaker.endpoint_api import SageMakerApi
from servable_local.aws.sagemaker.hosting import RegionalHosting
from tests.servable_local.aws.boto_members import SCALING, named, scalable
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.inventory import inventory

_ASSUMED = {"Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}
TRUST = json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", **_ASSUMED}]})


def refused(call: Callable[..., Any], *args: Any, **given: Any) -> str:
    """What the call is refused with."""
    with pytest.raises(ClientError) as raised:
        call(*args, **given)
    return str(raised.value.response["Error"]["Message"])


class Account:
    """One account of the local AWS, empty when the test begins."""

    settled_within_seconds = 30.0

    def __init__(self, aws: LocalAws, launcher: Launcher) -> None:
        self.aws = aws
        self.launcher = launcher
        self.number = "".join(random.SystemRandom().choice("123456789") for _ in range(12))

    def another(self) -> "Account":
        return Account(self.aws, self.launcher)

    @property
    def hosting(self) -> RegionalHosting:
        """Endpoints, components and jobs themselves, for their faults."""
        return SageMakerApi.hostings.provide_service(self.number, REGION)

    def client(self, service: str) -> Any:
        return self.aws.client(service, account=self.number)

    def open(self) -> operations_account.Account:
        """Return the account as the commands of Servable reach it, with clients of its own."""
        return operations_account.Account(region=REGION, number=self.number, aws=self.aws)

    def bootstrap(self) -> None:
        """Put the parameter by which a template knows an account that `cdk bootstrap` prepared."""
        version = {"Name": "/cdk-bootstrap/hnb659fds/version", "Value": "30", "Type": "String"}
        self.client("ssm").put_parameter(**version, Overwrite=True)

    def create_roles(self, environment: Environment) -> None:
        """The roles that the file names: the account's owners have made them."""
        roles = {*environment.endpoint.callers, environment.endpoint.execution_role}
        roles |= {model.execution_role for model in environment.models.values()}
        for role in filter(None, roles):
            name = role.rpartition("/")[2]
            self.client("iam").create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)

    def register_version(self, container: dict[str, Any], status: str = "Approved") -> str:
        """Adds a version to the group `ranker` of the registry; returns its ARN."""
        sagemaker = self.client("sagemaker")
        groups = sagemaker.list_model_package_groups()["ModelPackageGroupSummaryList"]
        if not groups:
            sagemaker.create_model_package_group(ModelPackageGroupName="ranker")
        form = ["application/json"]
        specification = {"Containers": [container], "SupportedContentTypes": form,
                         "SupportedResponseMIMETypes": form}  # fmt: skip
        made = sagemaker.create_model_package(
            ModelPackageGroupName="ranker",
            ModelApprovalStatus=status,
            InferenceSpecification=specification,
        )
        return str(made["ModelPackageArn"])

    def inventory(self) -> list[tuple[str, str]]:
        return inventory(self.aws, account=self.number)

    def put_archive(self, content: bytes, key: str = "model.tar.gz") -> str:
        """In a bucket of the account's; returns the s3:// address."""
        s3, bucket = self.client("s3"), f"archives-{self.number}"
        if bucket not in [one["Name"] for one in s3.list_buckets()["Buckets"]]:
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key=key, Body=content)
        return f"s3://{bucket}/{key}"

    def deploy(
        self, template: Mapping[str, Any], name: str = "stack", *, wait: bool = True, **more: Any
    ) -> str:
        """Creates or updates; returns the status in which the stack comes to rest, or is now."""
        cfn = self.client("cloudformation")
        exists = name in [stack["StackName"] for stack in cfn.describe_stacks()["Stacks"]]
        call = cfn.update_stack if exists else cfn.create_stack
        body = json.dumps(template, separators=(",", ":"))
        if len(body) <= 51_200:
            call(StackName=name, TemplateBody=body, **more)
        else:  # as AWS wants longer ones, and without a trace
            s3, place = self.client("s3"), {"Bucket": f"templates-{self.number}", "Key": "template"}
            s3.create_bucket(Bucket=place["Bucket"])
            s3.put_object(**place, Body=body)
            url = "https://{Bucket}.s3.us-east-1.amazonaws.com/{Key}".format_map(place)
            call(StackName=name, TemplateURL=url, **more)
            s3.delete_object(**place)
            s3.delete_bucket(Bucket=place["Bucket"])
        return self.settled(name) if wait else self.status(name)

    def change_capacities(self, endpoint: str, **change: Any) -> None:
        """Change a variant's weight or count, and move the clock to the tick that ends the update."""
        self.client("sagemaker").update_endpoint_weights_and_capacities(
            EndpointName=endpoint, DesiredWeightsAndCapacities=[change]
        )
        self.launcher.clock.advance(seconds=TICK_SECONDS)

    def delete_endpoint(self, name: str) -> None:
        """Delete an endpoint, and wait until it is gone."""
        sagemaker, wait = self.client("sagemaker"), {"Delay": 0.02, "MaxAttempts": 500}
        sagemaker.delete_endpoint(EndpointName=name)
        sagemaker.get_waiter("endpoint_deleted").wait(EndpointName=name, WaiterConfig=wait)

    def scale(self, *, least: int, most: int) -> None:
        """Registers the variant `primary` of the endpoint `ranker` as a scalable target."""
        register = self.client(SCALING).register_scalable_target
        register(**scalable(), MinCapacity=least, MaxCapacity=most)

    def datapoints(self, metric: str, *statistics: str, unit: str | None = None, hours: int = 1,
                   period: int = 3600, **dimensions: str) -> list[dict[str, Any]]:  # fmt: skip
        """Those of the last hours and the next of a metric, which is NAMESPACE:NAME."""
        namespace, _, name = metric.partition(":")
        now, window = self.launcher.clock.now(), timedelta(hours=hours)
        kinds = ["ExtendedStatistics" if each[0] == "p" else "Statistics" for each in statistics]
        more: dict[str, Any] = {"Unit": unit} if unit else {}
        for kind, statistic in zip(kinds, statistics, strict=True):
            more.setdefault(kind, []).append(statistic)
        found = self.client("cloudwatch").get_metric_statistics(
            Namespace=namespace, MetricName=name, Dimensions=named(**dimensions),
            StartTime=now - window, EndTime=now + window, Period=period, **more,
        )  # fmt: skip
        return list(found["Datapoints"])

    def status(self, name: str = "stack") -> str:
        stacks = self.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
        return str(stacks[0]["StackStatus"])

    def settled(self, name: str = "stack") -> str:
        # Looked at from inside: asking all the time slows down what is waited for.
        stack = CloudFormationApi.regions.provide_service(self.number, REGION).require_stack(name)
        deadline = time.monotonic() + self.settled_within_seconds
        while stack.is_in_progress and time.monotonic() < deadline:
            time.sleep(0.005)
        assert not stack.is_in_progress, f"{name} is still {stack.status}"
        return self.status(name)

    def delete(self, name: str = "stack") -> str:
        cfn = self.client("cloudformation")
        stack_id = cfn.describe_stacks(StackName=name)["Stacks"][0]["StackId"]
        cfn.delete_stack(StackName=name)
        return self.settled(stack_id)

    def output(self, key: str, name: str = "stack") -> str:
        cfn = self.client("cloudformation")
        outputs = cfn.describe_stacks(StackName=name)["Stacks"][0]["Outputs"]
        return next(str(o["OutputValue"]) for o in outputs if o["OutputKey"] == key)

    def reason(self, logical_id: str, status: str, name: str = "stack") -> str:
        """The reason of the latest event of that resource with that status."""
        events = self.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        return next(
            str(e.get("ResourceStatusReason", ""))
            for e in events
            if e["LogicalResourceId"] == logical_id and e["ResourceStatus"] == status
        )

    def events(self, name: str = "stack") -> list[tuple[str, str]]:
        """(logical id, status), oldest first."""
        events = self.client("cloudformation").describe_stack_events(StackName=name)["StackEvents"]
        return [(e["LogicalResourceId"], e["ResourceStatus"]) for e in reversed(events)]


_DEADLINE_SECONDS = 10


class Queue:
    def __init__(self, account: Account) -> None:
        self._sqs = account.client("sqs")
        self._url = self._sqs.create_queue(QueueName="inbox")["QueueUrl"]
        asked = self._sqs.get_queue_attributes(QueueUrl=self._url, AttributeNames=["QueueArn"])
        self.arn: str = asked["Attributes"]["QueueArn"]

    def receive(self, count: int, wanted: Callable[[Any], bool] = lambda body: True) -> list[Any]:
        """The first so many of the messages that are wanted, in the order in which they came."""
        found: list[Any] = []
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while len(found) < count and time.monotonic() < deadline:
            got = self._sqs.receive_message(QueueUrl=self._url, MaxNumberOfMessages=10)
            bodies = [json.loads(message["Body"]) for message in got.get("Messages", [])]
            found += filter(wanted, bodies)
            time.sleep(0.02)
        return found[:count]


class TopicInbox:
    """Hears what the rule of state changes says to its topic."""

    def __init__(self, account: Account) -> None:
        """All rules of the account have one target, the same topic."""
        events = account.client("events")
        rules = events.list_rules()["Rules"]
        listed = [events.list_targets_by_rule(Rule=rule["Name"])["Targets"] for rule in rules]
        (topic,) = {target["Arn"] for targets in listed for target in targets}
        self._queue = Queue(account)
        account.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=self._queue.arn)

    def said(self, count: int) -> list[str]:
        """The first so many of the rule's messages; alarms say JSON."""
        bodies = self._queue.receive(count, lambda body: body["Message"].startswith("Endpoint "))
        return [body["Message"] for body in bodies]
