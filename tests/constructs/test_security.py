"""VPC, isolation, keys, capture, roles: as the file asks; and what cdk-nag's four rule packs find."""

import json
import re
from contextlib import nullcontext
from pathlib import Path

import aws_cdk as cdk
import pytest

from stacks.audits import add_rule_packs
from tests.conftest import VALID, Environment
from tests.constructs.conftest import CALLERS, Synthesise, Synthesised, stage_of, with_keys, written
from tests.constructs.test_alarms import FILES

KEY = "arn:aws:kms:eu-west-1:111111111111:key/00000000-0000-0000-0000-00000000000"
CAPTURE = "[capture]\nsample_percent = 25\nkeep_days = 7\n"


def test_a_model_is_in_its_network_isolated_under_the_files_keys(synthesise: Synthesise) -> None:
    found = synthesise(
        with_keys("endpoint", f'log_kms_key = "{KEY}2"')
        + '[network]\nsubnets = ["subnet-0a1b2c3d"]\nsecurity_groups = ["sg-0a1b2c3d"]\n'
        + f'[security]\nnetwork_isolation = true\n[alarms]\ntopic_kms_key = "{KEY}3"\n'
    )
    model = found.one("AWS::SageMaker::Model")
    network = {"Subnets": ["subnet-0a1b2c3d"], "SecurityGroupIds": ["sg-0a1b2c3d"]}
    assert model["VpcConfig"] == network
    assert model["EnableNetworkIsolation"] is True
    assert found.one("AWS::Logs::LogGroup")["KmsKeyId"] == f"{KEY}2"
    assert found.one("AWS::SNS::Topic")["KmsMasterKeyId"] == f"{KEY}3"
    # None is made.
    assert found.all("AWS::KMS::Key") == []


@pytest.mark.long
def test_the_endpoints_role_is_its_models_unless_one_has_its_own(synthesise: Synthesise) -> None:
    serving, other = (f"arn:aws:iam::111111111111:role/company/{name}" for name in "ab")
    text = with_keys("endpoint", f'execution_role = "{serving}"')
    found = synthesise(text)
    assert found.one("AWS::SageMaker::Model")["ExecutionRoleArn"] == serving
    assert found.all("AWS::IAM::Role") == found.all("AWS::IAM::Policy") == []
    text = with_keys("model", f'execution_role = "{other}"', text)
    assert synthesise(text).one("AWS::SageMaker::Model")["ExecutionRoleArn"] == other


@pytest.mark.long
def test_every_role_has_the_boundary_and_the_path_that_are_given(synthesise: Synthesise) -> None:
    boundary = "arn:aws:iam::111111111111:policy/company/boundary"
    rules = f'permissions_boundary = "{boundary}"\niam_path = "/service/ranker/"\n'
    found = synthesise(with_keys("endpoint", CALLERS) + f"[security]\n{rules}")
    role = found.one("AWS::IAM::Role")
    assert (role["PermissionsBoundary"], role["Path"]) == (boundary, "/service/ranker/")
    assert found.one("AWS::IAM::ManagedPolicy")["Path"] == "/service/ranker/"
    assert not {"PermissionsBoundary", "Path"} & set(synthesise().one("AWS::IAM::Role"))


def test_samples_are_captured_as_the_file_says(synthesise: Synthesise) -> None:
    found = synthesise(VALID + CAPTURE).one("AWS::SageMaker::EndpointConfig")["DataCaptureConfig"]
    modes = [{"CaptureMode": "Input"}, {"CaptureMode": "Output"}]
    assert (found["InitialSamplingPercentage"], found["CaptureOptions"]) == (25, modes)
    assert found["KmsKeyId"] == {"Fn::ImportValue": "prod-data-samples-key"}


@pytest.mark.long
def test_samples_end_after_their_days_and_outlive_their_stack(environment: Environment) -> None:
    assert stage_of(environment).node.try_find_child("data") is None
    stack = stage_of(environment, VALID + CAPTURE).node.find_child("data")
    assert isinstance(stack, cdk.Stack)
    data = Synthesised.of(stack)
    rules = [one["LifecycleConfiguration"]["Rules"][0] for one in data.all("AWS::S3::Bucket")]
    assert sorted(rule["ExpirationInDays"] for rule in rules) == [7, 365]
    kept = [
        resource["DeletionPolicy"]
        for resource in data.template["Resources"].values()
        if resource["Type"] in ("AWS::S3::Bucket", "AWS::KMS::Key")
    ]
    assert kept == ["RetainExceptOnCreate", "Retain", "RetainExceptOnCreate"]
    denied = [
        [one["Condition"] for one in each["PolicyDocument"]["Statement"] if one["Effect"] == "Deny"]
        for each in data.all("AWS::S3::BucketPolicy")
    ]
    assert denied == [[{"Bool": {"aws:SecureTransport": "false"}}]] * 2


KEYS = f'volume_kms_key = "{KEY}1"\nlog_kms_key = "{KEY}1"\n'
SECURE = (
    with_keys("endpoint", KEYS + CALLERS, FILES["rollout"]).replace(
        "[alarms]\n", f'[alarms]\ntopic_kms_key = "{KEY}1"\n'
    )
    + """
[capture]
[network]
subnets = ["subnet-0a1b2c3d4e5f60718", "subnet-0a1b2c3d4e5f60719"]
security_groups = ["sg-0a1b2c3d4e5f60718"]
[batch.nightly]
model = "ranker"
instance_type = "ml.c5.xlarge"
input = "s3://tables/rows/"
output = "s3://tables/scores/"
content_type = "text/csv"
schedule = "rate(1 day)"
"""
)
QUEUE = with_keys("endpoint", CALLERS, FILES["queue"])
LOGS, VOLUMES = "CloudWatchLogGroupEncrypted", "SageMakerEndpointConfigurationKMSKeyConfigured"


def found_in(out: Path) -> set[tuple[str, str]]:
    """Return each violation: the rule without its pack, and the construct."""
    return {
        (each["ruleName"].rpartition("-")[2], where["constructPath"].partition("/endpoint/")[2])
        for file in out.rglob("validation-report.json")
        for plugin in json.loads(file.read_text())["pluginReports"]
        if plugin["pluginName"].startswith(("AwsSol", "NIST", "HIPAA", "PCI"))
        for each in plugin.get("violations", ())
        for where in each["violatingConstructs"]
    }


@pytest.mark.parametrize("name", ["secure", "queue"])
def test_these_findings_are_accepted_and_no_others(environment: Environment, name: str) -> None:
    stage = stage_of(environment, SECURE if name == "secure" else QUEUE)
    found = {
        # Without the fingerprints of the model and of the rollout.
        re.sub("[0-9a-f]{8}$", "", construct.node.path.removesuffix("/Resource")) + f": {rule}"
        for construct in stage.node.find_all()
        for entry in construct.node.metadata
        if entry.type == "aws:cdk:acknowledged-rules"
        for rule in entry.data
    }
    assert sorted(found) == written("accepted_findings.txt", name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "found"),
    [
        (SECURE, set()),
        (FILES["rollout"], {(LOGS, "Logs/Resource"), (LOGS, "GoldenRequests/Log"),
                            (VOLUMES, "Endpoint/Config/Default")}),
        (FILES["queue"], {(LOGS, "Logs/Resource"), (VOLUMES, "Endpoint/Config/Default")}),
        (FILES["components"], {(LOGS, "Logs/Resource"), (LOGS, "Logs-b/Resource"),
                               (VOLUMES, "Endpoint/Config/Default")}),
        # Local NVMe takes no key: the hardware encrypts it.
        (FILES["pools"].replace('"ml.c5.xlarge"', '"ml.g5.2xlarge"'), {(LOGS, "Logs/Resource")}),
    ],
    ids=["secure", "rollout", "queue", "components", "disks"],
)  # fmt: skip
def test_only_keys_that_a_file_leaves_out_are_missing(
    environment: Environment, text: str, found: set[tuple[str, str]]
) -> None:
    app = stage_of(environment, text).node.root
    assert isinstance(app, cdk.App)
    add_rule_packs(app, "AwsSolutions,NIST80053R5,HIPAASecurity,PCIDSS321")
    refused = pytest.raises(RuntimeError, match="ValidationFailed") if found else nullcontext()
    with refused:
        app.synth()
    assert found_in(Path(app.outdir)) == found
