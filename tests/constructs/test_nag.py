"""cdk-nag's four rule packs over whole stacks: only what a file leaves out on purpose is found."""

import json
import re
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import pytest

from infra.preflight.check import check, select_errors
from stacks.audits import add_rule_packs
from stacks.environment_stage import EnvironmentStage
from tests.conftest import Environment
from tests.constructs.conftest import FLAGS, stack_of
from tests.constructs.test_alarm_conditions import FILES

PACKS = "AwsSolutions,NIST80053R5,HIPAASecurity,PCIDSS321"
KEY = "arn:aws:kms:eu-west-1:111111111111:key/0a1b2c3d-0000-0000-0000-000000000001"
SECURE = (
    FILES["rollout"]
    .replace(
        'name = "ranker"\n',
        f'name = "ranker"\nvolume_kms_key = "{KEY}"\nlog_kms_key = "{KEY}"\n'
        'callers = ["arn:aws:iam::111111111111:role/web"]\n',
        1,
    )
    .replace("[alarms]\n", f'[alarms]\ntopic_kms_key = "{KEY}"\n')
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
QUEUE = FILES["queue"].replace(
    'name = "ranker"\n', 'name = "ranker"\ncallers = ["arn:aws:iam::111111111111:role/web"]\n', 1
)
LOGS, VOLUMES = "CloudWatchLogGroupEncrypted", "SageMakerEndpointConfigurationKMSKeyConfigured"


def found_in(out: Path) -> set[tuple[str, str]]:
    """Return each violation: the rule without its pack, and the construct."""
    reports: list[dict[str, Any]] = [
        plugin
        for file in out.rglob("validation-report.json")
        for plugin in json.loads(file.read_text())["pluginReports"]
    ]
    return {
        (each["ruleName"].rpartition("-")[2], where["constructPath"].partition("/endpoint/")[2])
        for plugin in reports
        if plugin["pluginName"].startswith(("AwsSol", "NIST", "HIPAA", "PCI"))
        for each in plugin.get("violations", ())
        for where in each["violatingConstructs"]
    }


@pytest.mark.parametrize("name", ["secure", "queue"])
def test_these_findings_are_accepted_and_no_others(environment: Environment, name: str) -> None:
    stage = stack_of(environment, SECURE if name == "secure" else QUEUE).node.scope
    assert stage is not None
    found = {
        # Without the fingerprints of the model and of the rollout.
        re.sub("[0-9a-f]{8}$", "", construct.node.path.removesuffix("/Resource")) + f": {rule}"
        for construct in stage.node.find_all()
        for entry in construct.node.metadata
        if entry.type == "aws:cdk:acknowledged-rules"
        for rule in entry.data
    }
    accepted = (Path(__file__).parent / "accepted_findings.txt").read_text().split("== ")
    (expected,) = (each for each in accepted if each.startswith(f"{name}\n"))
    assert sorted(found) == expected.splitlines()[1:]


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
    environment: Environment, tmp_path: Path, text: str, found: set[tuple[str, str]]
) -> None:
    loaded = environment(text)
    findings = check(loaded)
    assert select_errors(findings) == []
    app = cdk.App(
        context=FLAGS, outdir=str(tmp_path / "out"), builtin_cloud_formation_validation=False
    )
    EnvironmentStage(app, loaded, findings)
    add_rule_packs(app, PACKS)
    refused = pytest.raises(RuntimeError, match="ValidationFailed") if found else nullcontext()
    with refused:
        app.synth()
    assert found_in(tmp_path / "out") == found
