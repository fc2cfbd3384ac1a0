"""The stack CDKToolkit, which `cdk bootstrap` creates and every `cdk deploy` requires.

The CDK CLI's own template makes it, so that a later `cdk bootstrap` of that CLI changes nothing.
"""

import contextlib
import shutil
from pathlib import Path

from servable_local.aws.local_aws import LocalAws

STACK = "CDKToolkit"
_TEMPLATE = Path("lib/api/bootstrap/bootstrap-template.yaml")
# The parameters that `cdk bootstrap` passes without options.
_PARAMETERS = [
    {"ParameterKey": "FileAssetsBucketKmsKeyId", "ParameterValue": "AWS_MANAGED_KEY"},
    {
        "ParameterKey": "CloudFormationExecutionPolicies",
        "ParameterValue": "arn:aws:iam::aws:policy/AdministratorAccess",
    },
]


class BootstrapError(Exception):
    """The stack could not be created. `str()` says why."""


def find_template(folder: Path) -> Path | None:
    """Return the template of the CDK CLI: the one on PATH, or the one that npm installed at or above
    `folder`. Return None without a CLI."""
    program = shutil.which("cdk")
    packages = [Path(program).resolve().parent.parent] if program else []
    packages += [above / "node_modules" / "aws-cdk" for above in (folder, *folder.parents)]
    return next((path for package in packages if (path := package / _TEMPLATE).is_file()), None)


def bootstrap(aws: LocalAws, *, account: str, region: str, folder: Path) -> bool:
    """Create CDKToolkit in an account and Region, unless it exists. Return False without a CDK CLI.

    `folder`: where to look for the CLI, after PATH. Raises `BootstrapError`.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    cloudformation = aws.client("cloudformation", account=account, region=region)
    try:
        stacks = cloudformation.describe_stacks()["Stacks"]
        if not any(stack["StackName"] == STACK for stack in stacks):
            template = find_template(folder)
            if template is None:
                return False
            with contextlib.suppress(cloudformation.exceptions.AlreadyExistsException):
                cloudformation.create_stack(
                    StackName=STACK,
                    TemplateBody=template.read_text(encoding="utf-8"),
                    Parameters=_PARAMETERS,
                    Capabilities=["CAPABILITY_NAMED_IAM"],
                )
        created = cloudformation.get_waiter("stack_create_complete")
        created.wait(StackName=STACK, WaiterConfig={"Delay": 0.1, "MaxAttempts": 600})
    except (BotoCoreError, ClientError) as error:
        place = f"aws://{account}/{region}"
        remedy = f"run `cdk bootstrap {place}` to see the reason"
        raise BootstrapError(f"cannot bootstrap {place}: {error}; {remedy}") from None
    return True
