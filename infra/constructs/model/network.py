"""The VPC of a model's containers: subnets and security groups, or isolation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import jsii
from constructs import Construct

from infra.arguments import check_kind
from infra.parameters.endpoint import Network

if TYPE_CHECKING:
    from aws_cdk import aws_ec2 as ec2


class Connectable:
    """Declare ec2.IConnectable without importing aws_ec2, which would slow down every synth."""

    __jsii_type__ = "aws-cdk-lib.aws_ec2.IConnectable"

    @property
    @jsii.member(jsii_name="connections")
    def connections(self) -> "ec2.Connections":
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class ModelNetwork:
    """The VPC of a model's containers, or their isolation from every network."""

    vpc: "ec2.IVpc | None" = None
    """VPC of the instances, with a gateway endpoint for S3. Default: SageMaker's own network."""
    subnets: "ec2.SubnetSelection | None" = None
    """Subnets of `vpc`. Default: its private subnets."""
    security_groups: "Sequence[ec2.ISecurityGroup]" = ()
    """Security groups of the instances. Default: a new one in `vpc`, which allows all outbound traffic."""
    ids: Network | None = None
    """IDs of subnets and security groups, if you have no `vpc` to pass. Default: none."""
    isolated: bool = False
    """Whether the container has no network access, S3 included. Default: False."""


def connect_security_groups(
    where: str, groups: "Sequence[ec2.ISecurityGroup]", remedy: str
) -> "ec2.Connections":
    """Return the connections of security groups. Raises ValueError if there are none."""
    from aws_cdk import aws_ec2 as ec2  # a fifth of a second, only for apps with a network

    if not groups:
        raise ValueError(f"{where}: connections: there is no security group; pass {remedy}")
    return ec2.Connections(security_groups=list(groups))


def resolve_network(
    model: Construct, given: ModelNetwork | Network | None
) -> "tuple[Network, Sequence[ec2.ISecurityGroup]]":
    """Return the IDs of subnets and security groups, and the groups that are constructs.

    Creates a group next to the model if a VPC has none. Raises ValueError for arguments that don't fit.
    """
    if not isinstance(given, ModelNetwork):
        return given or Network(), ()
    where, vpc, ids = f"{model.node.path}: network", given.vpc, given.ids
    if vpc is not None and ids is not None:
        raise ValueError(f"{where}: pass either vpc or ids, not both")
    if vpc is None:
        if given.security_groups or given.subnets is not None:
            raise ValueError(f"{where}: subnets and security_groups need a vpc; pass vpc, or ids")
        return ids or Network(), ()
    check_kind(where, "VPC", vpc=vpc)
    for group in given.security_groups:
        check_kind(where, "security group", security_groups=group)
    from aws_cdk import aws_ec2 as ec2

    scope = model.node.scope
    assert scope is not None  # a model is in a stack
    groups = list(given.security_groups) or [
        ec2.SecurityGroup(scope, f"{model.node.id}SecurityGroup", vpc=vpc)
    ]
    chosen = given.subnets or ec2.SubnetSelection()
    subnets = vpc.select_subnets(
        availability_zones=chosen.availability_zones,
        one_per_az=chosen.one_per_az,
        subnet_filters=chosen.subnet_filters,
        subnet_group_name=chosen.subnet_group_name,
        subnets=chosen.subnets,
        subnet_type=chosen.subnet_type,
    ).subnet_ids
    group_ids = [group.security_group_id for group in groups]
    return Network(subnets=subnets, security_groups=group_ids), groups
