"""A local AWS on 127.0.0.1, to which the real CDK CLI deploys.

    with running() as aws:          # a private local AWS, for a test or a demonstration
        subprocess.run(["cdk", "deploy"], env=aws.environment_over(os.environ))
        aws.client("sagemaker").list_endpoints()

    up(), status(), down()          # that of .servable in this folder, as `servable local` uses it

docs/local.md lists what it doesn't emulate.
"""

from servable_local.aws.lifecycle import LocalAwsStartError, down, running, status, up
from servable_local.aws.local_aws import ACCOUNT, REGION, LocalAws

__all__ = ["ACCOUNT", "REGION", "LocalAws", "LocalAwsStartError", "down", "running", "status", "up"]
