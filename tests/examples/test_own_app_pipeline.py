"""The pipeline of examples/own_app: a local AWS takes what it deploys, from the cloud assembly alone.

It refuses AWS::CodePipeline::Pipeline and AWS::CodeBuild::Project: AWS runs a pipeline as soon as it is
there, and nothing would run this one. So the tests do what its actions do: the CDK CLI publishes what the
projects of CodeBuild would, and CloudFormation is asked for each change set that an action asks for.
"""

import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

import cloudformation_validate as validate
import pytest

from scripts.check_templates import lint_templates, validate_template
from servable_local.aws import LocalAws, running
from tests.checkouts import PATH, ROOT, assert_predicts, bootstrapped, run_in, succeed_in

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
LIVE = {"account": "333333333333", "region": "eu-west-1"}
# The example as it is, and cdk-nag over it.
AUDITED = """
import aws_cdk, runpy
from stacks.audits import add_rule_packs
synth = aws_cdk.App.synth
aws_cdk.App.synth = lambda app: (add_rule_packs(app, "AwsSolutions"), synth(app))
runpy.run_path("examples/own_app/pipeline.py")
"""
# In the place of 4 and 16, which the tests' two processors would start.
FEWER = {
    "prod.variants.primary.container.tfs_processes": "1",
    "prod.variants.primary.container.gunicorn_workers": "2",
}
# CDK Pipelines grants by wildcards, keeps no access log of its artifacts and joins with nothing between.
OF_CDK_PIPELINES = {"AwsSolutions-IAM5", "AwsSolutions-S1", "E3703", "W3005"}


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("delivery") / "cdk.out"
    own = {"PATH": PATH, "PYTHONPATH": str(ROOT), "CDK_VALIDATION": "false"}
    own |= {"CDK_OUTDIR": str(out), "CDK_CONTEXT_JSON": json.dumps(FEWER)}
    variables = os.environ | own
    ran = run_in(ROOT, sys.executable, "-c", AUDITED, environment=variables, timeout_seconds=300)
    assert out.is_dir(), ran.stderr
    return out


def actions(assembly: Path, provider: str) -> list[dict[str, Any]]:
    """Configurations of the pipeline's actions of a provider, as they follow each other."""
    resources = json.loads((assembly / "delivery.template.json").read_text())["Resources"].values()
    (pipeline,) = [one for one in resources if one["Type"] == "AWS::CodePipeline::Pipeline"]
    return [
        action["Configuration"]
        for stage in pipeline["Properties"]["Stages"]
        for action in sorted(stage["Actions"], key=lambda action: action["RunOrder"])
        if action["ActionTypeId"]["Provider"] == provider
    ]


def carry_out(action: dict[str, Any], assembly: Path, aws: LocalAws) -> None:
    """One of the two actions of a stack: CodePipeline's guide says which calls they are.

    Source: https://docs.aws.amazon.com/codepipeline/latest/userguide/action-reference-CloudFormation.html
    (2026-11)
    """
    cloudformation = aws.client("cloudformation", **LIVE)
    names = {name: action[name] for name in ("StackName", "ChangeSetName")}
    if action["ActionMode"] == "CHANGE_SET_EXECUTE":
        cloudformation.execute_change_set(**names)
        cloudformation.get_waiter("stack_create_complete").wait(
            StackName=names["StackName"], WaiterConfig={"Delay": 1, "MaxAttempts": 60}
        )
        return
    template = assembly / action["TemplatePath"].removeprefix("Synth_Output::")
    artifacts = f"cdk-hnb659fds-assets-{LIVE['account']}-{LIVE['region']}"
    aws.client("s3", **LIVE).put_object(
        Bucket=artifacts, Key=template.name, Body=template.read_bytes()
    )
    cloudformation.create_change_set(
        **names,
        ChangeSetType="CREATE",
        TemplateURL=f"https://{artifacts}.s3.{LIVE['region']}.amazonaws.com/{template.name}",
        Capabilities=action["Capabilities"].split(","),
        RoleARN="".join(
            "aws" if part == {"Ref": "AWS::Partition"} else part
            for part in action["RoleArn"]["Fn::Join"][1]
        ),
    )
    cloudformation.get_waiter("change_set_create_complete").wait(
        **names, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )


def test_the_endpoint_and_its_packed_model_come_before_callers(assembly: Path) -> None:
    (manifest,) = assembly.glob("*/*endpoint*.assets.json")
    sources = [asset["source"] for asset in json.loads(manifest.read_text())["files"].values()]
    packed = [manifest.parent / source["path"] for source in sources if "path" in source]
    ours = [file for file in packed if file.name.startswith("servable-")]
    assert [*map(tarfile.is_tarfile, ours)] == [True, False], sources
    prepared = [one["StackName"] for one in actions(assembly, "CloudFormation")]
    assert prepared == [name for name in ("ranker-prod-endpoint", "live-callers") for _ in range(2)]


def test_the_endpoint_answers_and_the_role_may_ask_it(assembly: Path) -> None:
    with running() as aws:
        bootstrapped(aws, **LIVE)
        command = "cdk publish-assets delivery/live/** --app cdk.out --unstable publish-assets"
        variables = aws.environment_over({**os.environ, "PATH": PATH}, **LIVE)
        succeed_in(assembly.parent, *command.split(), environment=variables)
        for action in actions(assembly, "CloudFormation"):
            carry_out(action, assembly, aws)
        assert_predicts(aws, "ranker-prod", **LIVE)
        iam = aws.client("iam", **LIVE)
        roles = [role["RoleName"] for role in iam.list_roles()["Roles"]]
        (role,) = [role for role in roles if "Site" in role]
        (policy,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
        document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
    assert "arn:aws:sagemaker:eu-west-1:333333333333:endpoint/ranker-prod" in str(document)


def test_three_judges_find_nothing_but_what_cdk_pipelines_makes(assembly: Path) -> None:
    report = json.loads((assembly / "validation-report.json").read_text())
    nag = {
        (violation["ruleName"].split("[")[0], construct["constructPath"].split("/Pipeline/")[0])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    }
    templates, engine = sorted(assembly.rglob("*.template.json")), validate.RegoEngine()
    lines = lint_templates(templates) + [
        said for one in templates for said in validate_template(one, engine)
    ]
    unexpected = [
        line
        for line in lines
        if "delivery.template.json" not in line
        or not any(f":{rule}:" in line.replace(": ", ":") for rule in OF_CDK_PIPELINES)
    ]
    assert nag == {("AwsSolutions-IAM5", "delivery"), ("AwsSolutions-S1", "delivery")}
    assert unexpected == []
