"""The account that an environment is deployed to: credentials, region, bootstrap, quotas, network."""

from collections.abc import Callable, Iterator

from botocore.exceptions import ClientError, NoCredentialsError

from infra.catalog.availability import regions
from infra.parameters.environment import Environment
from infra.policy.sizing import instances_during_update
from servable.aws_account import Account, AwsError, absent, unless_absent
from servable.doctor.look import Look, State, judged

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
    found = unless_absent(asked.client("ssm").get_parameter, Name=BOOTSTRAP)
    if found is None:
        yield Look(name="bootstrap", state="problem", said="not bootstrapped", mend=mend)
        return
    version = found["Parameter"]["Value"]
    fine = int(version) >= LEAST_BOOTSTRAP
    yield judged("bootstrap", fine, f"version {version}, needed {LEAST_BOOTSTRAP}", mend)


def assets(environment: Environment, asked: Account) -> Iterator[Look]:
    """The key that published archives are encrypted with, against those that roles may use."""
    named = environment.kms_keys.get("endpoint.archive_kms_keys")
    if named is None:
        return  # nothing is published
    bucket = f"cdk-hnb659fds-assets-{environment.account}-{environment.region}"
    found = unless_absent(asked.client("s3").get_bucket_encryption, Bucket=bucket)
    if found is None:
        return  # the bootstrap's own line says so
    (rule,) = found["ServerSideEncryptionConfiguration"]["Rules"]
    # An ARN, or its last part: as it was given to `cdk bootstrap`.
    key = rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID", "")
    if not key:
        mend = "`cdk bootstrap --bootstrap-kms-key-id ID`, then deploy; or take the key out"
        yield judged("key of archives", not named, f"{bucket}: S3's own key", mend)
    elif any(arn.endswith(key) for arn in named):
        yield Look(name="key of archives", state="ok", said=f"{bucket}: {key}")
    else:
        mend = f"add it to endpoint.archive_kms_keys, unless its policy lets everybody here read: {key}"
        said = f"{bucket}: encrypted with a key that the file does not name"
        yield Look(name="key of archives", state="open", said=said, mend=mend)


def _scaling_role(environment: Environment, asked: Account) -> Iterator[Look]:
    if all(one.scaling is None for one in environment.variants.values()):
        return
    mend = (
        "`aws iam create-service-linked-role --aws-service-name "
        "sagemaker.application-autoscaling.amazonaws.com`"
    )
    if unless_absent(asked.client("iam").get_role, RoleName=SERVICE_ROLE) is None:
        # AWS makes it the first time that something is scaled.
        yield Look(name="scaling role", state="open", said="not there yet", mend=mend)
    else:
        yield Look(name="scaling role", state="ok", said=SERVICE_ROLE)


def needed(environment: Environment) -> dict[str, int]:
    """Instance type -> instances at once, while an update replaces a fleet at its maximum.

    All of a variant's instances may be of any of its instance types.
    """
    rollout = environment.rollout
    batches = rollout.batches if rollout else None
    found: dict[str, int] = {}
    for one in environment.variants.values():
        _, most = one.planned_capacity
        for kind in one.instance_types:  # serverless has none, and a quota of its own
            count = instances_during_update(most, batches=batches)
            found[kind] = found.get(kind, 0) + count
    return found


def quotas(environment: Environment, asked: Account) -> Iterator[Look]:
    """Of the account, shared with every other endpoint in it."""
    if asked.embedded:
        yield Look(name="quotas", state="open", said="the embedded AWS has none")
        return
    there = {
        # What was never raised is not among the applied ones: then AWS's own default holds.
        **_values(asked, "list_aws_default_service_quotas"),
        **_values(asked, "list_service_quotas"),
    }
    for kind, count in needed(environment).items():
        name = f"{kind} for endpoint usage"
        value = there.get(name)
        wanted = f"{count} at once, both fleets of an update at max_instances"
        if value is None:
            said = f"service-quotas does not list {name!r}; needed {wanted}"
            yield Look(name=f"quota of {kind}", state="open", said=said, mend="look in the console")
            continue
        mend = f"ask for {count} of {name!r} in Service Quotas, or lower max_instances"
        said = f"{value:g}, for all endpoints together; needed {wanted}"
        yield judged(f"quota of {kind}", value >= count, said, mend)
    if concurrent := _concurrent(environment):
        said = f"not asked, its name is not known here; needed {concurrent} requests at once"
        mend = "look at SageMaker's serverless concurrency in the Service Quotas console"
        yield Look(name="quota of serverless", state="open", said=said, mend=mend)


def _values(asked: Account, operation: str) -> dict[str, float]:
    found = asked.pages("service-quotas", operation, "Quotas", ServiceCode="sagemaker")
    return {one["QuotaName"]: float(one["Value"]) for one in found}


def _concurrent(environment: Environment) -> int:
    every = [one.serverless for one in environment.variants.values()]
    return sum(one.max_concurrency for one in every if one is not None)


def network(environment: Environment, asked: Account) -> Iterator[Look]:
    subnets = environment.network.subnets
    if not subnets:
        return
    ec2 = asked.client("ec2")
    try:
        found = ec2.describe_subnets(SubnetIds=list(subnets))["Subnets"]
    except ClientError as error:
        if not absent(error):
            raise
        mend = "write subnets that are in this account and region"
        yield Look(name="subnets", state="problem", said=str(error), mend=mend)
        return
    free = sum(int(one["AvailableIpAddressCount"]) for one in found)
    batches = environment.rollout.batches if environment.rollout else None
    count = sum(
        instances_during_update(one.planned_capacity[1], batches=batches)
        for one in environment.variants.values()
        if one.instance_types
    )
    mend = f"an instance takes an address: give larger subnets, {count} at once are needed"
    yield judged("subnets", free >= count, f"{len(found)} with {free} free addresses", mend)
    networks = sorted({one["VpcId"] for one in found})
    there = {
        one["ServiceName"]
        for one in asked.pages(
            "ec2",
            "describe_vpc_endpoints",
            "VpcEndpoints",
            Filters=[{"Name": "vpc-id", "Values": networks}],
        )
    }
    for service in ("s3", "logs"):
        name = f"com.amazonaws.{environment.region}.{service}"
        # A route to the internet does as well, which is not looked at.
        state: State = "ok" if name in there else "open"
        mend = "" if name in there else f"without a NAT gateway: make a VPC endpoint for {name}"
        said = "there" if name in there else "not there"
        yield Look(name=f"VPC endpoint {service}", state=state, said=said, mend=mend)


_ASKED: dict[str, Callable[[Environment, Account], Iterator[Look]]] = {
    "region": _region,
    "bootstrap": _bootstrap,
    "key of archives": assets,
    "quotas": quotas,
    "scaling role": _scaling_role,
    "subnets": network,
}
