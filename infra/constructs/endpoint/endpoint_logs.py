"""The endpoint's log group, created before SageMaker would create one, with the runbook's queries.

Syntax: https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html
"""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.arguments import check_kind, read_arguments
from infra.catalog.metrics import OWN, load_log_filters
from infra.parameters.endpoint import EndpointTable
from infra.policy.permissions import KEY_PERMISSIONS

# NGINX's combined access log: … "POST /invocations HTTP/1.1" 200 512 "-" "…"
_ACCESS = r'parse @message /"(?<method>[A-Z]+) (?<path>\S+) [^"]*" (?<status>\d{3}) (?<bytes>\d+)/'

QUESTIONS = {
    "answers by status and minute": f"""\
{_ACCESS}
| filter path like "/invocations" or path like "/invoke"
| stats count(*) as answers by bin(1m), status""",
    "refused requests by instance": f"""\
{_ACCESS}
| filter status in ["429", "503"]
| stats count(*) as refused by @logStream
| sort refused desc""",
    "errors and their first lines": """\
fields @timestamp, @logStream, @message
| filter @message like /ERROR|CRITICAL|Traceback|Error:/
| sort @timestamp desc
| limit 200""",
    "worker timeouts and kills": """\
fields @timestamp, @logStream, @message
| filter @message like /WORKER TIMEOUT|was sent SIGKILL|due to signal 9|unexpected .* exit/
| sort @timestamp desc
| limit 200""",
    "model loads": """\
fields @timestamp, @logStream, @message
| filter @message like /servable version|no SavedModel bundles found/
| sort @timestamp desc
| limit 200""",
    "last words of an instance": """\
stats latest(@message) as last, max(@timestamp) as at by @logStream
| sort at asc""",
}


def create_log_group(
    scope: Construct,
    name: str,
    construct_id: str = "Log",
    *,
    days: int,
    key_arn: str | None,
    keep: bool,
) -> logs.CfnLogGroup:
    """Create a log group; `keep` retains it when its stack is deleted.

    A group whose own creation failed isn't retained, because the next attempt would collide with it.
    """
    group = logs.CfnLogGroup(
        scope, construct_id, log_group_name=name, retention_in_days=days, kms_key_id=key_arn
    )
    retained = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    group.apply_removal_policy(retained if keep else cdk.RemovalPolicy.DESTROY)
    return group


def build_group_arn(scope: Construct, name: str) -> str:
    """Return the ARN of a log group of this account and Region; `name` may include streams."""
    stack = cdk.Stack.of(scope)
    return f"arn:{stack.partition}:logs:{stack.region}:{stack.account}:log-group:{name}"


class EndpointLogs(Construct):
    """The log group of an endpoint or component, with retention, metric filters, and queries.

    SageMaker creates the group if it is missing, without retention, and never deletes it; so this
    one must exist before the endpoint. Deleting the stack deletes it unless `keep` is set. A kept
    group makes the next deployment of the same name fail.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        endpoint_name: str,
        retention_days: int = 30,
        key: kms.IKey | None = None,
        keep: bool = False,
        component: str | None = None,
    ) -> None:
        """endpoint_name: Name of the endpoint, which is created after its log group.
        retention_days: Days to keep the lines. Default: 30, an incident and the month's review.
        key: KMS key, which CloudWatch Logs is allowed to use. Default: a key of CloudWatch Logs.
        keep: Whether the group is retained when its stack is deleted. Default: False.
        component: Inference component whose containers write the lines. Default: none.
        """
        super().__init__(scope, construct_id)
        check_kind(self.node.path, "key", key=key)
        days = {"name": "endpoint", "log_retention_days": retention_days}
        read_arguments(self.node.path, EndpointTable, days)
        # A component's group, as seen: https://github.com/huggingface/skills/pull/215 (2026-07)
        written = f"InferenceComponents/{component}" if component else f"Endpoints/{endpoint_name}"
        self.endpoint_name, self._name = endpoint_name, f"/aws/sagemaker/{written}"
        key_arn = key.key_arn if key else None
        self.group = create_log_group(
            self, self._name, "Resource", days=retention_days, key_arn=key_arn, keep=keep
        )
        self.arn = build_group_arn(self, self._name)
        if key is not None:
            self._allow_key_use(key)
        log_group_name = self.group.ref
        for log_filter in load_log_filters():
            counted = logs.CfnMetricFilter.MetricTransformationProperty(
                metric_namespace=f"{OWN}{endpoint_name}",
                metric_name=log_filter.metric,
                metric_value="1",
                # A minute without such a line is 0 and not missing: CloudWatch would evaluate older
                # minutes instead, and an alarm would recover late.
                default_value=0,
                unit="Count",
            )
            logs.CfnMetricFilter(
                self,
                log_filter.metric,
                log_group_name=log_group_name,
                filter_pattern=log_filter.pattern,
                metric_transformations=[counted],
            )
        for title, question in QUESTIONS.items():
            logs.CfnQueryDefinition(
                self,
                f"Question-{title.replace(' ', '-')}",
                name=f"{component or endpoint_name}/{title}",
                log_group_names=[log_group_name],
                query_string=question,
            )

    def _allow_key_use(self, key: kms.IKey) -> None:
        """Allow CloudWatch Logs to use the key, unless the key is imported."""
        (allowed,) = [each for each in KEY_PERMISSIONS if each.key == "endpoint.log_kms_key"]
        logs_service = iam.ServicePrincipal(f"logs.{cdk.Stack.of(self).region}.amazonaws.com")
        key.add_to_resource_policy(
            iam.PolicyStatement(
                actions=list(allowed.actions),
                principals=[logs_service],
                resources=["*"],  # in a key's policy the key itself
                # Not the group's attribute: the group needs the key first.
                conditions={"ArnEquals": {"kms:EncryptionContext:aws:logs:arn": self.arn}},
            )
        )
