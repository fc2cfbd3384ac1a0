"""Every row of docs/reference/permissions.md on the synthesised role: there with its capability, else not."""

import importlib.util
import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from infra.policy.permissions import PERMISSIONS, PLACES, Permission
from tests.batches import build_batch_example
from tests.conftest import VALID
from tests.constructs.conftest import CALLERS, Synthesise, Synthesised, listed, with_keys

KEY = "arn:aws:kms:eu-west-1:111111111111:key/00000000-0000-0000-0000-00000000000"
VOLUME_KEY = f'volume_kms_key = "{KEY}1"'
NETWORK = '[network]\nsubnets = ["subnet-0a1b2c3d"]\nsecurity_groups = ["sg-0a1b2c3d"]\n'
PREFIX = with_keys("model", 'compression = "none"')
# {place or capability: a file that has it}
ARCHIVE_KEYS = with_keys("endpoint", f'archive_kms_keys = ["{KEY}7", "{KEY}8"]')
ARTIFACT = f'artifact = {{ uri = "s3://runs/17/model.tar.gz", sha256 = "{"0" * 64}"'
DUMPED = f'{VALID}core_dumps = {{ uri = "s3://dumps/ranker/", kms_key = "{KEY}9" }}\n'
CAPTURED = VALID + f'[capture]\nkms_key = "{KEY}4"\n'
QUEUED = f'{VALID}[asynchronous]\nkms_key = "{KEY}5"\n[alarms]\ntopic_kms_key = "{KEY}6"\n'
KEYS = {"input_kms_key": f"{KEY}2", "output_kms_key": f"{KEY}3"}
BATCH = f"{build_batch_example(**KEYS)}\n{VALID}"
ON = {
    "write core dumps (core_dumps)": DUMPED,
    "encrypt core dumps (core_dumps.kms_key)": DUMPED,
    "decrypt the model (endpoint.archive_kms_keys, artifact.kms_key)": ARCHIVE_KEYS,
    "list the files of a model that is a prefix": PREFIX,
    "roll back an update ([rollout])": VALID + '[rollout]\nstrategy = "canary"\n',
    "capture samples ([capture])": CAPTURED,
    "encrypt samples ([capture])": CAPTURED,
    "read requests ([asynchronous])": QUEUED,
    "write answers ([asynchronous])": QUEUED,
    "encrypt requests and responses ([asynchronous])": QUEUED,
    "publish notifications ([asynchronous])": QUEUED,
    "encrypt notifications ([asynchronous])": QUEUED,
    "create the log group of transform jobs ([batch])": BATCH,
    "list the input of a batch ([batch])": BATCH,
    "read the input of a batch ([batch])": BATCH,
    "decrypt the input of a batch (batch.NAME.input_kms_key)": BATCH,
    "write the results of a batch ([batch])": BATCH,
    "list the first rows that `servable batch --limit` copies ([batch])": BATCH,
    "read the first rows that `servable batch --limit` copies ([batch])": BATCH,
    "encrypt the results of a batch (batch.NAME.output_kms_key)": BATCH,
    "encrypt volumes (endpoint.volume_kms_key)": with_keys("endpoint", VOLUME_KEY),
    "join the VPC ([network])": VALID + NETWORK,
    "attach and delete network interfaces ([network])": VALID + NETWORK,
    "describe the VPC ([network])": VALID + NETWORK,
}
# Of each place, what its ARN begins with in the test's account.
SHAPES = {
    "archive": "arn:aws:s3:::cdk-",
    "archive_keys": f"{KEY}7",
    "bucket": "arn:aws:s3:::cdk-",
    "repository": "arn:aws:ecr:eu-west-1:763104351884:repository/tensorflow-inference",
    "log_group": "arn:aws:logs:eu-west-1:111111111111:log-group:/aws/sagemaker/Endpoints/ranker",
    "log_streams": "arn:aws:logs:eu-west-1:111111111111:log-group:/aws/sagemaker/Endpoints/ranker"
    ":log-stream:*",
    "rollback_alarms": "arn:aws:cloudwatch:eu-west-1:111111111111:alarm:ranker-rollback-*",
    "captured": "arn:aws:s3:::prod-data-samples/captured/*",
    "capture_key": f"{KEY}4",
    "core_dumps": "arn:aws:s3:::dumps/ranker/*",
    "core_dump_key": f"{KEY}9",
    "requests": "arn:aws:s3:::prod-data-queue/requests/*",
    "answers": "arn:aws:s3:::prod-data-queue/answers/*",
    "queue_key": f"{KEY}5",
    "topics": "Queue",
    "topic_key": f"{KEY}6",
    "batch_log_group": "arn:aws:logs:eu-west-1:111111111111:log-group:/aws/sagemaker/TransformJobs",
    "batch_bucket": "arn:aws:s3:::tables",
    "batch_input": "arn:aws:s3:::tables/rows/*",
    "batch_output": "arn:aws:s3:::tables/scores/*",
    "batch_output_bucket": "arn:aws:s3:::tables",
    "batch_trial": "arn:aws:s3:::tables/scores/servable-trial/*",
    "batch_input_key": f"{KEY}2",
    "batch_output_key": f"{KEY}3",
    "volume_key": f"{KEY}1",
    "subnets": "arn:aws:ec2:eu-west-1:*:subnet/subnet-0a1b2c3d",
    "security_groups": "arn:aws:ec2:eu-west-1:*:security-group/sg-0a1b2c3d",
    "interfaces": "arn:aws:ec2:eu-west-1:111111111111:network-interface/*",
}
IDS = [one.capability for one in PERMISSIONS]


def statements(found: Synthesised) -> list[dict[str, Any]]:
    """Those of the roles that SageMaker assumes."""
    return [
        {key: listed(one[key]) for key in ("Action", "Resource")} | one.get("Condition", {})
        for policy in found.all("AWS::IAM::Policy")
        if "Model" in policy["PolicyName"]
        for one in policy["PolicyDocument"]["Statement"]
    ]


def actions(found: Synthesised) -> set[str]:
    return {action for statement in statements(found) for action in statement["Action"]}


@pytest.mark.parametrize("permission", PERMISSIONS, ids=IDS)
def test_a_capability_has_its_actions_on_its_resources(
    synthesise: Synthesise, permission: Permission
) -> None:
    found = statements(synthesise(ON.get(permission.capability, VALID)))
    wanted = [SHAPES[place] for place in permission.on] or ["*"]
    granted = [one["Resource"] for one in found if set(permission.actions) <= set(one["Action"])]
    assert any(
        len(resources) >= len(wanted)
        and all(any(resource.startswith(shape) for resource in resources) for shape in wanted)
        for resources in granted
    ), granted


def test_without_its_table_a_capability_is_absent(synthesise: Synthesise) -> None:
    always = {action for one in PERMISSIONS if one.capability not in ON for action in one.actions}
    assert set(ON) <= set(IDS)
    assert actions(synthesise()) <= always


@pytest.mark.long
def test_a_key_is_used_through_the_service_that_encrypts(synthesise: Synthesise) -> None:
    """Never by the role itself; also in China, whose other names end otherwise."""
    text = f'{ARCHIVE_KEYS}[capture]\nkms_key = "{KEY}4"\n[asynchronous]\nkms_key = "{KEY}5"\n'
    text += f'[alarms]\ntopic_kms_key = "{KEY}6"\n'
    found = synthesise(text.replace("eu-west-1", "cn-north-1").replace("arn:aws:", "arn:aws-cn:"))
    s3, sns = ["s3.cn-north-1.amazonaws.com"], ["sns.cn-north-1.amazonaws.com"]
    assert keys_by_service(found) == {"4": s3, "5": s3, "6": sns, "7": s3, "8": s3}
    role = found.one("AWS::IAM::Role")["AssumeRolePolicyDocument"]["Statement"][0]
    assert role["Condition"]["ArnLike"]["aws:SourceArn"].startswith("arn:aws-cn:sagemaker:cn-")

    # An artifact has a key of its own.
    pinned = f'{ARTIFACT}, kms_key = "{KEY}9" }}'
    found = synthesise(ARCHIVE_KEYS.replace('saved_model = "model"', pinned))
    assert [*keys_by_service(found)] == ["9"]


def keys_by_service(found: Synthesised) -> dict[str, list[str]]:
    """The last character of each key that is decrypted with, and through which service."""
    return {
        key[-1]: statement["StringEquals"]["kms:ViaService"]
        for statement in statements(found)
        if "kms:Decrypt" in statement["Action"]
        for key in statement["Resource"]
    }


def test_sagemaker_takes_on_the_role_for_this_account_region_and_partition_alone(
    synthesise: Synthesise,
) -> None:
    """As AWS words it for inference; neither a model's nor an endpoint's ARN, no other asterisk."""
    (role,) = synthesise().all("AWS::IAM::Role")
    (statement,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert statement == {
        "Effect": "Allow",
        "Principal": {"Service": "sagemaker.amazonaws.com"},
        "Action": "sts:AssumeRole",
        "Condition": {"ArnLike": {"aws:SourceArn": "arn:aws:sagemaker:eu-west-1:111111111111:*"}},
    }


def test_every_star_has_a_reason_and_every_place_is_shown_to_readers() -> None:
    starred = {"requests", "answers", "archive", "log_streams", "rollback_alarms", "captured",
               "core_dumps", "subnets", "security_groups", "interfaces"}  # fmt: skip
    without = [
        permission.capability
        for permission in PERMISSIONS
        if (not permission.on or set(permission.on) & starred) and permission.wildcard is None
    ]
    assert without == []

    assert {
        place for permission in PERMISSIONS for place in (*permission.on, *permission.needs)
    } <= set(PLACES)


def test_only_what_aws_cannot_narrow_is_allowed_on_everything() -> None:
    """By the table of IAM's actions and resources that cfn-lint ships."""
    cfnlint = importlib.util.find_spec("cfnlint")  # to import it takes seconds
    assert cfnlint is not None
    assert cfnlint.origin is not None
    table = Path(cfnlint.origin).with_name("data") / "AdditionalSpecs" / "Policies.json"
    services = json.loads(table.read_text())
    # Its resource, "dataset", is no metric's: https://docs.aws.amazon.com/service-authorization/
    exempt = {"cloudwatch:PutMetricData"}
    narrowable = [
        action
        for permission in PERMISSIONS
        if not permission.on
        for action in permission.actions
        if services[action.split(":")[0]]["Actions"][action.split(":")[1].lower()].get("Resources")
    ]
    assert set(narrowable) == exempt


def test_nothing_is_allowed_beyond_the_table_and_only_its_starred_rows_on_everything(
    synthesise: Synthesise,
) -> None:
    """In the policy of a key, a star is the key itself."""
    text = with_keys("endpoint", f"{CALLERS}\n{VOLUME_KEY}") + NETWORK
    text += '[capture]\n[alarms]\nnotify = ["a@example.com"]\n[rollout]\nstrategy = "canary"\n'
    found = synthesise(text)
    known = {action for permission in PERMISSIONS for action in permission.actions}
    assert actions(found) <= known
    resources = found.template["Resources"].values()
    allowed = {
        action
        for resource in resources
        if resource["Type"] != "AWS::KMS::Key"
        for statement in resource["Properties"].get("PolicyDocument", {}).get("Statement", [])
        if statement["Effect"] == "Allow" and "*" in listed(statement["Resource"])
        for action in listed(statement["Action"])
    }
    assert allowed == {
        action for permission in PERMISSIONS if not permission.on for action in permission.actions
    }


def test_a_subnet_or_group_of_another_account_is_allowed_and_an_alias_only_itself(
    synthesise: Synthesise,
) -> None:
    """Its ARN names the account that owns it (AWS RAM), which no file knows."""
    found = statements(synthesise(VALID + NETWORK))
    allowed = [arn for one in found for arn in one["Resource"]]
    for resource in ["subnet/subnet-0a1b2c3d", "security-group/sg-0a1b2c3d"]:
        shared = f"arn:aws:ec2:eu-west-1:999999999999:{resource}"
        assert any(fnmatchcase(shared, arn) for arn in allowed if arn != "*")

    found = statements(synthesise(with_keys("endpoint", 'volume_kms_key = "alias/serving"')))
    (one,) = [statement for statement in found if statement["Action"] == ["kms:CreateGrant"]]
    assert one["ForAnyValue:StringEquals"] == {"kms:ResourceAliases": ["alias/serving"]}


def test_callers_may_invoke_this_endpoint_and_nothing_else(synthesise: Synthesise) -> None:
    assert synthesise().all("AWS::IAM::ManagedPolicy") == []
    arn = "arn:aws:sagemaker:eu-west-1:111111111111:endpoint/"
    for name, resource in [
        ("ranker", f"{arn}ranker"),
        ("myRanker", [f"{arn}myRanker", f"{arn}myranker"]),
    ]:
        callers = f'name = "{name}"\ncallers = ["arn:aws:iam::111111111111:role/team/web"]'
        found = synthesise(VALID.replace('name = "ranker"', callers)).one("AWS::IAM::ManagedPolicy")
        (statement,) = found["PolicyDocument"]["Statement"]
        assert (statement["Action"], found["Roles"]) == ("sagemaker:InvokeEndpoint", ["web"])
        assert statement["Resource"] == resource
