"""A CDK app of one's own: a network, a key, a role, two endpoints, a function that asks one, and alarms.

cdk deploy search --app "python examples/own_app/app.py", from the project's folder; docs/own-app.md
explains it.
"""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as functions
from aws_cdk import aws_sns as sns
from constructs import Construct

from servable.constructs import Endpoint, EndpointLogs, Model, ModelNetwork

RANKER = Path("examples/ranker")
FUNCTION = Path("examples/own_app/function")


class SearchStack(cdk.Stack):
    """Everything of a search service; without account and region it can be deployed to any."""

    def __init__(
        self, scope: Construct, construct_id: str, *, env: cdk.Environment | None = None
    ) -> None:
        super().__init__(scope, construct_id, env=env)
        self.vpc = ec2.Vpc(
            self,
            "Vpc",
            max_azs=2,
            nat_gateways=1,
            gateway_endpoints={
                "S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)
            },
            # Else a custom resource empties the default group, which nothing here uses.
            restrict_default_security_group=False,
        )
        self.key = kms.Key(self, "Key", enable_key_rotation=True)
        self.on_call = sns.Topic.from_topic_arn(
            self, "OnCall", self.format_arn(service="sns", resource="on-call")
        )
        ranking = self._ranking()
        scores = self._scores()
        ask = functions.Function(
            self,
            "Ask",
            runtime=functions.Runtime.PYTHON_3_13,
            code=functions.Code.from_asset(str(FUNCTION)),
            handler="ask.handler",
            vpc=self.vpc,
            environment={"RANKING": ranking.endpoint_name},
        )
        ranking.grant_invoke(ask)
        scores.grant_invoke(ask)
        busy = scores.metric_invocations().create_alarm(
            self,
            "Busy",
            threshold=6_000,
            evaluation_periods=3,
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
        busy.add_alarm_action(actions.SnsAction(self.on_call))

    def _ranking(self) -> Endpoint:
        """The endpoint in the VPC, which scales, and whose updates are rolled back by alarms.

        A `construct_id` keeps what an earlier version of the app deployed; a new app needs none.
        """
        role = iam.Role(self, "Ranking", assumed_by=iam.ServicePrincipal("sagemaker.amazonaws.com"))
        model = Model.from_saved_model(
            self,
            "RankingModel",
            RANKER / "model",
            model_name="ranker",
            code=RANKER / "code",
            warm_up=[RANKER / "golden" / "request-rows.json"],
            network=ModelNetwork(vpc=self.vpc),
            role=role,
        )
        endpoint = Endpoint(
            self,
            "RankingEndpoint",
            endpoint_name="search-ranking",
            logs=EndpointLogs(self, "RankingLogs", endpoint_name="search-ranking", key=self.key),
            volume_key=self.key,
        )
        primary = endpoint.add_variant(
            "primary", model, instance_type="ml.c5.xlarge", min_instances=2, max_instances=6
        )
        primary.auto_scale(max_rps_per_instance=100, construct_id="RankingScaling")
        endpoint.roll_out(canary_percent=50, construct_id="RankingRollout")
        endpoint.add_alarms(p99_latency_ms=80, notify=self.on_call, construct_id="RankingAlarms")
        endpoint.add_dashboard(construct_id="RankingDashboard")
        return endpoint

    def _scores(self) -> Endpoint:
        """The endpoint of a folder as `model.export` writes it, without versions and without code."""
        model = Model.from_saved_model(
            self,
            "ScoresModel",
            "examples/ranker/model/1",
            model_name="scores",
            handler="servable",
            network=ModelNetwork(isolated=True),
        )
        logs = EndpointLogs(self, "ScoresLogs", endpoint_name="search-scores")
        endpoint = Endpoint(self, "ScoresEndpoint", endpoint_name="search-scores", logs=logs)
        endpoint.add_variant("primary", model, instance_type="ml.m5.large", min_instances=2)
        return endpoint


app = cdk.App()
SearchStack(app, "search")
app.synth()
