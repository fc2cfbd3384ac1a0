"""Subnets with room for every instance, and a way out of them."""

import math
from collections.abc import Iterator

from botocore.exceptions import ClientError

from infra.parameters.environment import Environment
from servable.aws_account import Account, absent
from servable.doctor.look import Look, State, judged
from servable.doctor.quotas import needed


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
    count = math.ceil(sum(needed(environment).values()))
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
