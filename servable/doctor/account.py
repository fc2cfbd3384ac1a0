"""The account that an environment is deployed to."""

from collections.abc import Callable, Iterator

from botocore.exceptions import ClientError, NoCredentialsError

from infra.catalog.availability import regions
from infra.parameters.environment import Environment
from servable.aws_account import Account, AwsError, absent
from servable.doctor.look import Look, judged
from servable.doctor.network import network
from servable.doctor.quotas import quotas

# What the synthesised stacks ask for: requiresBootstrapStackVersion.
LEAST_BOOTSTRAP = 6
BOOTSTRAP = "/cdk-bootstrap/hnb659fds/version"
SERVICE_ROLE = "AWSServiceRoleForApplicationAutoScaling_SageMakerEndpoint"


def account(environment: Environment, asked: Account) -> Iterator[Look]:
    """Credentials first; without them nothing else is asked."""
    try:
        found = asked.identity()
    except NoCredentialsError:
        mend = "`aws configure`, AWS_PROFILE, or the variables of `servable local up`"
        yield Look(name="credentials", state="problem", said="none in this shell", mend=mend)
        return
    except AwsError as wrong:
        mend = "look at the network, the clock and the credentials; nothing else was asked"
        yield Look(name="credentials", state="open", said=f"could not ask: {wrong}", mend=mend)
        return
    fine = str(found["Account"]) == environment.account
    mend = f"use credentials of {environment.account}, which the file names"
    yield judged("credentials", fine, f"{found['Arn']}", mend)
    if not fine:
        return
    for name, look in _ASKED.items():
        try:
            yield from look(environment, asked)
        except AwsError as wrong:
            mend = "the credentials may not ask, or nobody answers"
            yield Look(name=name, state="open", said=f"could not ask: {wrong}", mend=mend)


def _region(environment: Environment, asked: Account) -> Iterator[Look]:
    known = regions()
    fine = environment.region in known
    yield judged("region", fine, environment.region, f"SageMaker hosts in: {', '.join(known)}")


def _bootstrap(environment: Environment, asked: Account) -> Iterator[Look]:
    mend = f"`cdk bootstrap aws://{environment.account}/{environment.region}`"
    try:
        version = asked.client("ssm").get_parameter(Name=BOOTSTRAP)["Parameter"]["Value"]
    except ClientError as error:
        if not absent(error):
            raise
        yield Look(name="bootstrap", state="problem", said="not bootstrapped", mend=mend)
        return
    fine = int(version) >= LEAST_BOOTSTRAP
    yield judged("bootstrap", fine, f"version {version}, needed {LEAST_BOOTSTRAP}", mend)


def _scaling_role(environment: Environment, asked: Account) -> Iterator[Look]:
    if all(one.scaling is None for one in environment.variants.values()):
        return
    mend = (
        "`aws iam create-service-linked-role --aws-service-name "
        "sagemaker.application-autoscaling.amazonaws.com`"
    )
    try:
        asked.client("iam").get_role(RoleName=SERVICE_ROLE)
    except ClientError as error:
        if not absent(error):
            raise
        # AWS makes it the first time that something is scaled.
        yield Look(name="scaling role", state="open", said="not there yet", mend=mend)
        return
    yield Look(name="scaling role", state="ok", said=SERVICE_ROLE)


_ASKED: dict[str, Callable[[Environment, Account], Iterator[Look]]] = {
    "region": _region,
    "bootstrap": _bootstrap,
    "quotas": quotas,
    "scaling role": _scaling_role,
    "subnets": network,
}
