"""A VPC and its resources, as moto stores them: IDs that exist, and no network between them.

The first of these resources, or a caller of EC2, imports moto's EC2.
"""

import importlib
from contextlib import suppress
from typing import Any, ClassVar

from botocore.exceptions import ClientError

from servable_local.aws.resources.resource_type import (
    Logical,
    Physical,
    Properties,
    ResourceType,
    compare_items,
    find_changed_tags,
    is_true,
)


class Ec2Resource(ResourceType):
    """A resource that one operation creates from equally named properties; only tags change.

    `make` is the operation, and the keys that lead to the ID in its response; `removal` is the
    operation that deletes it, and its arguments: properties, or the ID. `fixed` are the properties
    that are passed to `make`.
    """

    make: ClassVar[tuple[str, ...]]
    fixed: ClassVar[tuple[str, ...]] = ()
    removal: ClassVar[tuple[str, ...]]
    id_attribute: ClassVar[str] = "Id"
    others: ClassVar[tuple[str, ...]] = ()
    """Properties that later calls of `modify`, or of the type itself, set."""
    modify: ClassVar[str | None] = None
    changeable: ClassVar[tuple[str, ...]] = ()
    """Those of `fixed` that AWS changes in place."""

    def __init_subclass__(cls) -> None:
        cls.create_only = frozenset(cls.fixed) - frozenset(cls.changeable)
        cls.unchangeable = frozenset(() if "update" in vars(cls) else cls.changeable)
        cls.emulated = frozenset({*cls.fixed, *cls.others, "Tags"})

    def create(self, properties: Properties, logical: Logical) -> Physical:
        operation, *path = self.make
        arguments = {key: properties[key] for key in self.fixed if key in properties}
        if "GroupDescription" in arguments:  # the only property with another name in the API
            arguments["Description"] = arguments.pop("GroupDescription")
        made = logical.call("ec2", operation, arguments)
        for key in path:
            made = made[key]
        physical = str(made) if path else logical.generate_name(64)
        logical.exists(physical)
        return self.put(physical, {}, properties, logical)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        for name in self.others if self.modify else ():
            if name in new:
                change = {self.id_attribute: physical, name: {"Value": new[name]}}
                logical.call("ec2", str(self.modify), change)
        tags, gone = find_changed_tags(old, new)
        if tags:
            logical.client("ec2").create_tags(Resources=[physical], Tags=tags)
        if gone:
            keys = [{"Key": key} for key in gone]
            logical.client("ec2").delete_tags(Resources=[physical], Tags=keys)
        # Fn::GetAtt returns the ID and the properties themselves.
        attributes = {key: new[key] for key in self.fixed if key in new}
        return Physical(physical, {self.id_attribute: physical, **attributes})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        operation, *arguments = self.removal
        with suppress(ClientError):  # it was deleted with its container
            named = {name: properties.get(name, physical) for name in arguments}
            logical.call("ec2", operation, named)


class Vpc(Ec2Resource):
    type = "AWS::EC2::VPC"
    make = ("CreateVpc", "Vpc", "VpcId")
    fixed = ("CidrBlock", "InstanceTenancy")
    changeable = ("InstanceTenancy",)
    others = ("EnableDnsHostnames", "EnableDnsSupport")
    modify = "ModifyVpcAttribute"
    removal = ("DeleteVpc", "VpcId")
    id_attribute = "VpcId"

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        made = super().put(physical, old, new, logical)
        own = [{"Name": "vpc-id", "Values": [physical]}]
        found = logical.client("ec2").describe_security_groups(Filters=own)
        default = {"DefaultSecurityGroup": found["SecurityGroups"][0]["GroupId"]}
        return Physical(physical, {**made.attributes, **default})


class Subnet(Ec2Resource):
    type = "AWS::EC2::Subnet"
    make = ("CreateSubnet", "Subnet", "SubnetId")
    fixed = ("AvailabilityZone", "CidrBlock", "VpcId")
    others = ("MapPublicIpOnLaunch",)
    modify = "ModifySubnetAttribute"
    removal = ("DeleteSubnet", "SubnetId")
    id_attribute = "SubnetId"


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
    removal = ("DeleteRoute", "DestinationCidrBlock", "RouteTableId")
    changeable = ("GatewayId", "NatGatewayId")

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        logical.call("ec2", "ReplaceRoute", {key: new[key] for key in self.fixed if key in new})
        return Physical(physical, {"Id": physical})


class InternetGateway(Ec2Resource):
    type = "AWS::EC2::InternetGateway"
    make = ("CreateInternetGateway", "InternetGateway", "InternetGatewayId")
    removal = ("DeleteInternetGateway", "InternetGatewayId")
    id_attribute = "InternetGatewayId"


class GatewayAttachment(Ec2Resource):
    type = "AWS::EC2::VPCGatewayAttachment"
    make = ("AttachInternetGateway",)
    fixed = ("InternetGatewayId", "VpcId")
    removal = ("DetachInternetGateway", *fixed)
    changeable = ("InternetGatewayId",)


class ElasticIp(Ec2Resource):
    type = "AWS::EC2::EIP"
    make = ("AllocateAddress", "PublicIp")
    fixed = ("Domain",)
    changeable = ("Domain",)
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
        name = self.choose_name(properties, logical)
        return super().create({**properties, "GroupName": name}, logical)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        # A group without egress rules of its own allows all egress.
        everywhere = [{"CidrIp": "0.0.0.0/0", "IpProtocol": "-1"}]
        for direction, default in (("Ingress", everywhere[:0]), ("Egress", everywhere)):
            before, after = (
                [
                    _build_permission({**rule, "GroupId": physical})
                    for rule in each.get(f"SecurityGroup{direction}", default)
                ]
                for each in (old, new)
            )
            for verb, rules, others in (("Authorize", after, before), ("Revoke", before, after)):
                for permission in (rule for rule in rules if rule not in others):
                    logical.call("ec2", f"{verb}SecurityGroup{direction}", permission)
        return super().put(physical, old, new, logical)


class _Rule(Ec2Resource):
    """A rule of a security group, as a separate resource."""

    direction: ClassVar[str]

    def create(self, properties: Properties, logical: Logical) -> Physical:
        physical = logical.generate_name(64)
        self._call("Authorize", properties, logical)
        return Physical(physical, {"Id": physical})

    def delete(self, physical: str, properties: Properties, logical: Logical) -> None:
        self._call("Revoke", properties, logical)

    def _call(self, verb: str, properties: Properties, logical: Logical) -> None:
        operation = f"{verb}SecurityGroup{self.direction}"
        with suppress(ClientError):  # moto rejects a second equal rule
            logical.call("ec2", operation, _build_permission(properties))


_RULE = ("CidrIp", "CidrIpv6", "Description", "FromPort", "GroupId", "IpProtocol", "ToPort")


def _build_permission(rule: Properties) -> dict[str, Any]:
    """Return a rule in the API's format."""
    permission = {key: rule[key] for key in ("FromPort", "IpProtocol", "ToPort") if key in rule}
    if "CidrIp" in rule:
        permission["IpRanges"] = [{"CidrIp": rule["CidrIp"]}]
    if "CidrIpv6" in rule:
        permission["Ipv6Ranges"] = [{"CidrIpv6": rule["CidrIpv6"]}]
    if other := rule.get("SourceSecurityGroupId") or rule.get("DestinationSecurityGroupId"):
        permission["UserIdGroupPairs"] = [{"GroupId": other}]
    return {"GroupId": rule["GroupId"], "IpPermissions": [permission]}


class IngressRule(_Rule):
    type = "AWS::EC2::SecurityGroupIngress"
    direction = "Ingress"
    fixed = (*_RULE, "SourceSecurityGroupId")
    changeable = ("Description",)


class EgressRule(_Rule):
    type = "AWS::EC2::SecurityGroupEgress"
    direction = "Egress"
    fixed = (*_RULE, "DestinationSecurityGroupId")
    changeable = ("Description",)


class VpcEndpoint(Ec2Resource):
    type = "AWS::EC2::VPCEndpoint"
    make = ("CreateVpcEndpoint", "VpcEndpoint", "VpcEndpointId")
    removal = ("DeleteVpcEndpoints", "VpcEndpointIds")
    listed = ("RouteTableIds", "SecurityGroupIds", "SubnetIds")
    changeable = ("PolicyDocument", "PrivateDnsEnabled", *listed)
    fixed = (*changeable, "ServiceName", "VpcEndpointType", "VpcId")

    def create(self, properties: Properties, logical: Logical) -> Physical:
        return super().create({"VpcEndpointType": "Gateway", **properties}, logical)

    def put(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        made = super().put(physical, old, new, logical)
        found = logical.client("ec2").describe_vpc_endpoints(VpcEndpointIds=[physical])
        (endpoint,) = found["VpcEndpoints"]
        entries = [f"{one['HostedZoneId']}:{one['DnsName']}" for one in endpoint["DnsEntries"]]
        created = endpoint["CreationTimestamp"].isoformat()
        attributes = {"DnsEntries": entries, "CreationTimestamp": created}
        attributes["NetworkInterfaceIds"] = endpoint["NetworkInterfaceIds"]
        return Physical(physical, {**made.attributes, **attributes})

    def update(self, physical: str, old: Properties, new: Properties, logical: Logical) -> Physical:
        """Change the endpoint, and the routes and the DNS switch, which moto leaves as they were."""
        ec2 = logical.client("ec2")
        backends = importlib.import_module("moto.ec2.models").ec2_backends
        endpoint = backends[logical.aws.account][logical.aws.region].vpc_end_points[physical]
        endpoint.private_dns_enabled = is_true(new.get("PrivateDnsEnabled", False))
        policy = new.get("PolicyDocument", endpoint.DEFAULT_POLICY)
        change: dict[str, Any] = {"VpcEndpointId": physical, "PolicyDocument": policy}
        for name in self.listed:
            change[f"Add{name}"], change[f"Remove{name}"] = compare_items(name, old, new)
        logical.call("ec2", "ModifyVpcEndpoint", change)
        named = [{"Name": "prefix-list-name", "Values": [new["ServiceName"]]}]
        for prefixes in ec2.describe_managed_prefix_lists(Filters=named)["PrefixLists"]:
            route = {"DestinationPrefixListId": prefixes["PrefixListId"]}
            for table in change["AddRouteTableIds"]:
                ec2.create_route(**route, RouteTableId=table, GatewayId=physical)
            for table in change["RemoveRouteTableIds"]:
                ec2.delete_route(**route, RouteTableId=table)
        return self.put(physical, old, new, logical)
