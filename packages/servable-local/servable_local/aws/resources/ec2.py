"""A VPC and its resources, as moto stores them: IDs that exist, and no network between them.

The first of these resources, or a caller of EC2, imports moto's EC2.
"""

from contextlib import suppress
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceError,
    ResourceType,
    find_changed_tags,
)


class Ec2Resource(ResourceType):
    """A resource that one operation creates from equally named properties; only tags change.

    `make` is the operation, and the keys that lead to the ID in its response; `removal` is the
    operation that deletes it, and its argument. `fixed` are the properties that are passed to
    `make`.
    """

    make: ClassVar[tuple[str, ...]]
    fixed: ClassVar[tuple[str, ...]] = ()
    removal: ClassVar[tuple[str, str]]
    id_attribute: ClassVar[str] = "Id"
    others: ClassVar[tuple[str, ...]] = ()
    """Properties that are set otherwise, or that nothing here depends on."""
    changeable: ClassVar[tuple[str, ...]] = ()
    """Those of `fixed` that AWS changes in place; here such a change is refused by name."""
    refused: ClassVar[tuple[str, ...]] = ()
    """Properties that are not emulated and would make a new resource."""

    def __init_subclass__(cls) -> None:
        cls.create_only = frozenset(cls.fixed) - frozenset(cls.changeable) | frozenset(cls.refused)
        cls.emulated = frozenset({*cls.fixed, *cls.others, "Tags"})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        changed = [key for key in self.changeable if old.get(key) != new.get(key)]
        if changed:
            raise ResourceError(f"{self.type}: a change of {', '.join(changed)} is not emulated")
        return self.put(physical, old, new, logical)

    def create(self, properties: Properties, logical: Logical) -> Physical:
        operation, *path = self.make
        arguments = {key: properties[key] for key in self.fixed if key in properties}
        answer: Any = logical.call("ec2", operation, self.build_arguments(arguments))
        made = answer
        for key in path[:-1]:
            made = made[key]
        physical = str(made[path[-1]]) if path else logical.generate_name(64)
        logical.exists(physical)
        return self.put(physical, {}, properties, logical)

    def build_arguments(self, properties: dict[str, Any]) -> dict[str, Any]:
        """Return the operation's arguments for the properties in `fixed`."""
        return properties

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        tags, gone = find_changed_tags(old, new)
        if tags:
            logical.client("ec2").create_tags(Resources=[physical], Tags=tags)
        if gone:
            keys = [{"Key": key} for key in gone]
            logical.client("ec2").delete_tags(Resources=[physical], Tags=keys)
        return Physical(
            physical, {self.id_attribute: physical, **self.collect_attributes(new, logical)}
        )

    def collect_attributes(self, properties: Properties, logical: Logical) -> dict[str, Any]:
        """Return what Fn::GetAtt returns besides the ID: the properties themselves."""
        return {key: properties[key] for key in self.fixed if key in properties}

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        operation, argument = self.removal
        with suppress(ClientError):  # it went with what it was in
            logical.call("ec2", operation, {argument: physical})


class Vpc(Ec2Resource):
    type = "AWS::EC2::VPC"
    make = ("CreateVpc", "Vpc", "VpcId")
    fixed = ("CidrBlock", "InstanceTenancy")
    changeable = ("InstanceTenancy",)
    refused = ("Ipv4IpamPoolId", "Ipv4NetmaskLength", "VpcEncryptionControl")
    others = ("EnableDnsHostnames", "EnableDnsSupport")
    removal = ("DeleteVpc", "VpcId")
    id_attribute = "VpcId"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        for name in self.others:
            if name in new:
                value = {name: {"Value": new[name]}}
                logical.call("ec2", "ModifyVpcAttribute", {"VpcId": physical, **value})
        made = super().put(physical, old, new, logical)
        found = logical.client("ec2").describe_security_groups(
            Filters=[{"Name": "vpc-id", "Values": [physical]}]
        )
        default = {"DefaultSecurityGroup": found["SecurityGroups"][0]["GroupId"]}
        return Physical(physical, {**made.attributes, **default})


class Subnet(Ec2Resource):
    type = "AWS::EC2::Subnet"
    make = ("CreateSubnet", "Subnet", "SubnetId")
    fixed = ("AvailabilityZone", "CidrBlock", "VpcId")
    refused = (
        "AvailabilityZoneId",
        "Ipv4IpamPoolId",
        "Ipv4NetmaskLength",
        "Ipv6IpamPoolId",
        "Ipv6Native",
        "Ipv6NetmaskLength",
        "OutpostArn",
    )
    others = ("MapPublicIpOnLaunch",)
    removal = ("DeleteSubnet", "SubnetId")
    id_attribute = "SubnetId"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        if (public := new.get("MapPublicIpOnLaunch")) is not None:
            change = {"SubnetId": physical, "MapPublicIpOnLaunch": {"Value": public}}
            logical.call("ec2", "ModifySubnetAttribute", change)
        return super().put(physical, old, new, logical)


class RouteTable(Ec2Resource):
    type = "AWS::EC2::RouteTable"
    make = ("CreateRouteTable", "RouteTable", "RouteTableId")
    fixed = ("VpcId",)
    removal = ("DeleteRouteTable", "RouteTableId")
    id_attribute = "RouteTableId"


class RouteTableAssociation(Ec2Resource):
    type = "AWS::EC2::SubnetRouteTableAssociation"
    make = ("AssociateRouteTable", "AssociationId")
    fixed = ("RouteTableId", "SubnetId")
    removal = ("DisassociateRouteTable", "AssociationId")


class VpcRoute(Ec2Resource):
    type = "AWS::EC2::Route"
    make = ("CreateRoute",)
    fixed = ("DestinationCidrBlock", "GatewayId", "NatGatewayId", "RouteTableId")
    changeable = ("GatewayId", "NatGatewayId")
    refused = ("DestinationIpv6CidrBlock", "DestinationPrefixListId")

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        logical.call("ec2", "ReplaceRoute", {key: new[key] for key in self.fixed if key in new})
        return Physical(physical, {"Id": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        route = {key: properties[key] for key in ("DestinationCidrBlock", "RouteTableId")}
        with suppress(ClientError):
            logical.call("ec2", "DeleteRoute", route)


class InternetGateway(Ec2Resource):
    type = "AWS::EC2::InternetGateway"
    make = ("CreateInternetGateway", "InternetGateway", "InternetGatewayId")
    fixed = ()
    removal = ("DeleteInternetGateway", "InternetGatewayId")
    id_attribute = "InternetGatewayId"


class GatewayAttachment(Ec2Resource):
    type = "AWS::EC2::VPCGatewayAttachment"
    make = ("AttachInternetGateway",)
    fixed = ("InternetGatewayId", "VpcId")
    changeable = ("InternetGatewayId",)

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        with suppress(ClientError):
            logical.call(
                "ec2", "DetachInternetGateway", {key: properties[key] for key in self.fixed}
            )


class ElasticIp(Ec2Resource):
    type = "AWS::EC2::EIP"
    make = ("AllocateAddress", "PublicIp")
    fixed = ("Domain",)
    changeable = ("Domain",)
    refused = ("Address", "IpamPoolId", "NetworkBorderGroup", "TransferAddress")
    removal = ("ReleaseAddress", "PublicIp")
    id_attribute = "PublicIp"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        (address,) = logical.client("ec2").describe_addresses(PublicIps=[physical])["Addresses"]
        super().put(address["AllocationId"], old, new, logical)
        return Physical(physical, {"PublicIp": physical, "AllocationId": address["AllocationId"]})


class NatGateway(Ec2Resource):
    type = "AWS::EC2::NatGateway"
    make = ("CreateNatGateway", "NatGateway", "NatGatewayId")
    fixed = ("AllocationId", "ConnectivityType", "SubnetId")
    refused = ("AvailabilityMode", "PrivateIpAddress", "VpcId")
    removal = ("DeleteNatGateway", "NatGatewayId")
    id_attribute = "NatGatewayId"


class SecurityGroup(Ec2Resource):
    """A security group, with the rules in its own properties."""

    type = "AWS::EC2::SecurityGroup"
    make = ("CreateSecurityGroup", "GroupId")
    fixed = ("GroupDescription", "GroupName", "VpcId")
    others = ("SecurityGroupEgress", "SecurityGroupIngress")
    removal = ("DeleteSecurityGroup", "GroupId")
    id_attribute = "GroupId"
    name_property = "GroupName"

    def create(self, properties: Properties, logical: Logical) -> Physical:
        return super().create(
            {**properties, "GroupName": self.choose_name(properties, logical)}, logical
        )

    def build_arguments(self, properties: dict[str, Any]) -> dict[str, Any]:
        description = properties.pop("GroupDescription")
        return {**properties, "Description": description}

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        for direction in ("Ingress", "Egress"):
            before, after = (each.get(f"SecurityGroup{direction}", []) for each in (old, new))
            for verb, rules, others in (("Authorize", after, before), ("Revoke", before, after)):
                for rule in (rule for rule in rules if rule not in others):
                    permission = _build_permission({**rule, "GroupId": physical})
                    with suppress(ClientError):  # a new group has the rule that lets all out
                        logical.call("ec2", f"{verb}SecurityGroup{direction}", permission)
        return super().put(physical, old, new, logical)


class _Rule(Ec2Resource):
    """A rule of a security group, as a separate resource."""

    direction: ClassVar[str]

    def create(self, properties: Properties, logical: Logical) -> Physical:
        physical = logical.generate_name(64)
        with suppress(ClientError):  # moto keeps no second rule that is the same
            logical.call(
                "ec2", f"AuthorizeSecurityGroup{self.direction}", _build_permission(properties)
            )
        return Physical(physical, {"Id": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        with suppress(ClientError):
            logical.call(
                "ec2", f"RevokeSecurityGroup{self.direction}", _build_permission(properties)
            )


_RULE = ("CidrIp", "Description", "FromPort", "GroupId", "IpProtocol", "ToPort")


def _build_permission(rule: Properties) -> dict[str, Any]:
    """Return a rule in the API's format."""
    permission = {key: rule[key] for key in ("FromPort", "IpProtocol", "ToPort") if key in rule}
    if "CidrIp" in rule:
        permission["IpRanges"] = [{"CidrIp": rule["CidrIp"]}]
    other = rule.get("SourceSecurityGroupId") or rule.get("DestinationSecurityGroupId")
    if other:
        permission["UserIdGroupPairs"] = [{"GroupId": other}]
    return {"GroupId": rule["GroupId"], "IpPermissions": [permission]}


class IngressRule(_Rule):
    type = "AWS::EC2::SecurityGroupIngress"
    direction = "Ingress"
    fixed = (*_RULE, "SourceSecurityGroupId")
    changeable = ("Description",)
    refused = (
        "CidrIpv6",
        "GroupName",
        "SourcePrefixListId",
        "SourceSecurityGroupName",
        "SourceSecurityGroupOwnerId",
    )


class EgressRule(_Rule):
    type = "AWS::EC2::SecurityGroupEgress"
    direction = "Egress"
    fixed = (*_RULE, "DestinationSecurityGroupId")
    changeable = ("Description",)
    refused = ("CidrIpv6", "DestinationPrefixListId")


class VpcEndpoint(Ec2Resource):
    type = "AWS::EC2::VPCEndpoint"
    make = ("CreateVpcEndpoint", "VpcEndpoint", "VpcEndpointId")
    fixed = (
        "PolicyDocument",
        "PrivateDnsEnabled",
        "RouteTableIds",
        "SecurityGroupIds",
        "ServiceName",
        "SubnetIds",
        "VpcEndpointType",
        "VpcId",
    )
    changeable = (
        "PolicyDocument",
        "PrivateDnsEnabled",
        "RouteTableIds",
        "SecurityGroupIds",
        "SubnetIds",
    )
    refused = ("ResourceConfigurationArn", "ServiceNetworkArn", "ServiceRegion")

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        with suppress(ClientError):
            logical.client("ec2").delete_vpc_endpoints(VpcEndpointIds=[physical])
