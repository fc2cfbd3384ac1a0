"""Check the AWS account of an environment: credentials, Region, bootstrap, quotas, network."""

import importlib.util
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from botocore.exceptions import ClientError, NoCredentialsError

from infra.catalog.instances import list_regions
from infra.parameters.environment import Environment, build_stack_name
from infra.policy import execution_policy as policy
from infra.policy.sizing import count_update_instances
from servable.doctor.machine import CheckResult, build_result
from servable.plan.live import build_unlocking_command, find_taken_names, read_deployed_stack
from servable.project.account import Account, AwsError, choose_remedy, fetch_or_none, is_not_found
from servable.project.environments import find_cdk_command, format_stage_command

# The synthesised stacks require it: requiresBootstrapStackVersion.
LEAST_BOOTSTRAP = 6


def check_account(name: str, environment: Environment, aws: Account) -> Iterator[CheckResult]:
    """Check the credentials for the environment `name`, and if they are valid, its account."""
    try:
        identity = aws.fetch_identity()
    except NoCredentialsError:
        remedy = "`aws configure`, AWS_PROFILE, or the variables of `servable local up`"
        yield CheckResult("credentials", "problem", "this shell has no credentials", remedy)
        return
    except AwsError as wrong:
        remedy = choose_remedy(wrong, "check the network, the clock, and the credentials")
        yield CheckResult("credentials", "unknown", f"could not be checked: {wrong}", remedy)
        return
    fine = str(identity["Account"]) == environment.account
    remedy = f"use credentials of {environment.account}, the account in the file"
    yield build_result("credentials", fine, f"{identity['Arn']}", remedy)
    if not fine:
        return
    looks: dict[str, Callable[[Environment, Account], Iterator[CheckResult]]] = {
        "region": _check_region,
        "bootstrap": _check_bootstrap,
        "key of archives": check_archive_key,
        "quotas": check_quotas,
        "scaling role": _check_scaling_role,
        "subnets": check_network,
        "SageMaker SDK": _check_sagemaker_sdk,
        "stack": partial(check_endpoint_stack, name),
        "names": partial(check_names, name),
    }
    for subject, look in looks.items():
        try:
            yield from look(environment, aws)
        except AwsError as wrong:
            remedy = "check the credentials' permissions and the network"
            yield CheckResult(subject, "unknown", f"could not be checked: {wrong}", remedy)


def check_endpoint_stack(
    name: str, environment: Environment, aws: Account
) -> Iterator[CheckResult]:
    stack = build_stack_name(name, environment, "endpoint")
    described = fetch_or_none(aws.client("cloudformation").describe_stacks, StackName=stack)
    details = {} if described is None else described["Stacks"][0]
    unlocking = build_unlocking_command(details)
    status = f"{stack}: {details.get('StackStatus', 'not deployed')}"
    deploy = format_stage_command("deploy", name)
    remedy = f"`{unlocking}`, then `{deploy}`, which deletes it and creates it again"
    if unlocking:
        status += "; it is protected, so no deployment can replace it"
    yield build_result("stack", unlocking is None, status, remedy)


def check_names(name: str, environment: Environment, aws: Account) -> Iterator[CheckResult]:
    stack = build_stack_name(name, environment, "endpoint")
    _, template = read_deployed_stack(stack, aws.client("cloudformation"))
    problems = [
        CheckResult(taken.resource, "problem", taken.problem, taken.remedy)
        for taken in find_taken_names(environment, template, aws.client)
    ]
    yield from problems or [CheckResult("names", "ok", "not used by resources outside the stack")]


def _check_region(environment: Environment, aws: Account) -> Iterator[CheckResult]:
    names, region = list_regions(), environment.region
    hosted = f"SageMaker hosting is available in: {', '.join(names)}"
    yield build_result("region", region in names, region, hosted)


def _check_bootstrap(environment: Environment, aws: Account) -> Iterator[CheckResult]:
    remedy = f"`{find_cdk_command()} bootstrap aws://{environment.account}/{environment.region}`"
    parameter = fetch_or_none(aws.client("ssm").get_parameter, Name=policy.BOOTSTRAP_VERSION)
    if parameter is None:
        yield CheckResult("bootstrap", "problem", "not bootstrapped", remedy)
        return
    version = parameter["Parameter"]["Value"]
    fine = int(version) >= LEAST_BOOTSTRAP
    yield build_result("bootstrap", fine, f"version {version}; needed: {LEAST_BOOTSTRAP}", remedy)


def check_archive_key(environment: Environment, aws: Account) -> Iterator[CheckResult]:
    """Compare the key that encrypts published archives with the keys that roles may use."""
    named = environment.kms_keys.get("endpoint.archive_kms_keys")
    if named is None:
        return  # nothing is published
    account, region = environment.account, environment.region
    bucket = policy.BOOTSTRAP_BUCKET.format(account=account, region=region)
    encryption = fetch_or_none(aws.client("s3").get_bucket_encryption, Bucket=bucket)
    if encryption is None:
        return  # the line about the bootstrap reports it
    (rule,) = encryption["ServerSideEncryptionConfiguration"]["Rules"]
    # An ARN or its last part, as it was given to `cdk bootstrap`.
    key = rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID", "")
    if not key:
        option = "".join(f" --bootstrap-kms-key-id {name}" for name in named[:1])
        remedy = f"`{find_cdk_command()} bootstrap{option}`, then deploy; or remove the key"
        yield build_result("key of archives", not named, f"{bucket}: S3's own key", remedy)
    elif any(arn.endswith(key) for arn in named):
        yield CheckResult("key of archives", "ok", f"{bucket}: {key}")
    else:
        remedy = f"add it to endpoint.archive_kms_keys, unless its policy lets the whole account read: {key}"
        said = f"{bucket}: encrypted with a key that isn't in the file"
        yield CheckResult("key of archives", "open", said, remedy)


def _check_scaling_role(environment: Environment, aws: Account) -> Iterator[CheckResult]:
    served = environment.serving_variants.values()
    if all(variant.scaling is None and not variant.can_sleep for variant in served):
        return
    remedy = f"`aws iam create-service-linked-role --aws-service-name {policy.SCALING_SERVICE}`"
    if fetch_or_none(aws.client("iam").get_role, RoleName=policy.SCALING_ROLE) is None:
        # AWS creates it when the first target is registered.
        yield CheckResult("scaling role", "open", "does not exist yet", remedy)
    else:
        yield CheckResult("scaling role", "ok", policy.SCALING_ROLE)


def count_needed_instances(environment: Environment) -> dict[str, int]:
    """Return instance type -> instances needed while an update replaces a fleet of maximum size.

    All of a variant's instances may be of any of its instance types.
    """
    batches = environment.rollout.batches if environment.rollout else None
    counts: Counter[str] = Counter()
    for variant in environment.variants.values():
        _, most = variant.planned_capacity
        for kind in variant.instance_types:  # serverless has none, and a quota of its own
            counts[kind] += count_update_instances(most, batches=batches)
    return counts


def fetch_quotas(aws: Account) -> dict[str, float] | None:
    """Return SageMaker's quotas by name, or None for a local AWS. Raises one of `AwsError`."""
    # A quota that was never raised isn't listed as applied: AWS's default applies.
    operations = ("list_aws_default_service_quotas", "list_service_quotas")
    where = {"key": "Quotas", "ServiceCode": "sagemaker"}
    try:
        return {
            quota["QuotaName"]: float(quota["Value"])
            for operation in operations
            for quota in aws.list_or_empty("service-quotas", operation, **where)
        }
    except ClientError as error:
        if aws.has_custom_endpoint and error.response["Error"]["Code"] == "NotImplemented":
            return None
        raise


def check_quotas(environment: Environment, aws: Account) -> Iterator[CheckResult]:
    """Compare the account's quotas, which all its endpoints share, with an update's needs."""
    if (there := fetch_quotas(aws)) is None:
        yield CheckResult("quotas", "open", "the local AWS has no quotas")
        return
    for kind, count in count_needed_instances(environment).items():
        name = f"{kind} for endpoint usage"
        value = there.get(name)
        demand = f"{count} at once, both fleets of an update at max_instances"
        if value is None:
            said = f"Service Quotas doesn't list {name!r}; needed: {demand}"
            remedy = "check it in the Service Quotas console"
            yield CheckResult(f"quota of {kind}", "open", said, remedy)
            continue
        remedy = f"ask for {count} of {name!r} in Service Quotas, or lower max_instances"
        said = f"{value:g}, shared by all endpoints; needed: {demand}"
        yield build_result(f"quota of {kind}", value >= count, said, remedy)
    every = [variant.serverless for variant in environment.variants.values()]
    if concurrent := sum(serverless.max_concurrency for serverless in every if serverless):
        said = f"not checked, because its name is unknown; needed: {concurrent} concurrent requests"
        remedy = "check SageMaker's serverless concurrency in the Service Quotas console"
        yield CheckResult("quota of serverless", "open", said, remedy)


def check_network(environment: Environment, aws: Account) -> Iterator[CheckResult]:
    subnets = environment.network.subnets
    if not subnets:
        return
    ec2 = aws.client("ec2")
    try:
        described = ec2.describe_subnets(SubnetIds=list(subnets))["Subnets"]
    except ClientError as error:
        if not is_not_found(error):
            raise
        remedy = "set network.subnets to subnets of this account and region"
        yield CheckResult("subnets", "problem", str(error), remedy)
        return
    free = sum(int(subnet["AvailableIpAddressCount"]) for subnet in described)
    batches = environment.rollout.batches if environment.rollout else None
    placed = [variant for variant in environment.variants.values() if variant.instance_types]
    most = [variant.planned_capacity[1] for variant in placed]
    count = sum(count_update_instances(each, batches=batches) for each in most)
    said = f"{len(described)} with {free} free addresses"
    remedy = f"each instance needs an address; use larger subnets: {count} are needed at once"
    yield build_result("subnets", free >= count, said, remedy)
    networks = sorted({subnet["VpcId"] for subnet in described})
    filters = [{"Name": "vpc-id", "Values": networks}]
    listed = aws.iterate_items("ec2", "describe_vpc_endpoints", "VpcEndpoints", Filters=filters)
    there = {vpc_endpoint["ServiceName"] for vpc_endpoint in listed}
    for service in ("s3", "logs"):
        name = f"com.amazonaws.{environment.region}.{service}"
        # A route to the internet also works; it is not checked.
        check = f"VPC endpoint {service}"
        if name in there:
            yield CheckResult(check, "ok", "exists")
        else:
            remedy = f"unless the subnets have a NAT gateway, create a VPC endpoint for {name}"
            yield CheckResult(check, "open", "does not exist", remedy)


def _check_sagemaker_sdk(environment: Environment, aws: Account) -> Iterator[CheckResult]:
    """Report the call that an installed SageMaker SDK sends to AWS, not to the local AWS."""
    if aws.has_custom_endpoint and importlib.util.find_spec("sagemaker"):
        address = f"https://sts.{environment.region}.amazonaws.com"
        said = f"its default_bucket() calls AWS itself: {address}"
        remedy = "pass a bucket: Session(default_bucket=NAME)"
        yield CheckResult("SageMaker SDK", "open", said, remedy)
