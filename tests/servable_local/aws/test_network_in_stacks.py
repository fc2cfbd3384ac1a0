"""A network of a stack: the rules of its security groups, and VPC endpoints that change in place."""

from typing import Any

import pytest

from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long
READ = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:Get*", "Resource": "*"}]}


def ref(*names: str) -> list[dict[str, str]]:
    return [{"Ref": name} for name in names]


def template(changed: bool) -> dict[str, Any]:
    """The stack's first state, and its second one."""
    (vpc,) = ref("Vpc")
    placed = {"VpcId": vpc}
    https = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
    gateway = {"ServiceName": "com.amazonaws.us-east-1.s3", **placed}
    logs = {"ServiceName": "com.amazonaws.us-east-1.logs", "VpcEndpointType": "Interface", **placed}
    resources: dict[str, tuple[str, dict[str, Any]]] = {
        "Vpc": ("VPC", {"CidrBlock": "10.0.0.0/16"}),
        "A": ("Subnet", {"CidrBlock": "10.0.0.0/24", "AvailabilityZone": "us-east-1a", **placed}),
        "B": ("Subnet", {"CidrBlock": "10.0.1.0/24", "AvailabilityZone": "us-east-1b", **placed}),
        "Kept": ("RouteTable", placed),
        "Old": ("RouteTable", placed),
        "New": ("RouteTable", placed),
        "Open": ("SecurityGroup", {"GroupDescription": "open", **placed, "SecurityGroupIngress": [
            {**https, "CidrIpv6": "::/0"}]}),
        "Closed": ("SecurityGroup", {"GroupDescription": "closed", **placed, **(
            {} if changed else {"SecurityGroupEgress": [{**https, "CidrIp": "10.0.0.0/16"}]})}),
        "S3": ("VPCEndpoint", gateway | (
            {"RouteTableIds": ref("Kept", "New")} if changed else
            {"RouteTableIds": ref("Kept", "Old"), "PolicyDocument": READ})),
        "Logs": ("VPCEndpoint", logs | (
            {"SubnetIds": ref("B"), "SecurityGroupIds": ref("Closed"), "PrivateDnsEnabled": False}
            if changed else
            {"SubnetIds": ref("A"), "SecurityGroupIds": ref("Open"), "PrivateDnsEnabled": True})),
    }  # fmt: skip
    outputs: dict[str, Any] = {name: {"Ref": name} for name in resources}
    outputs["Dns"] = {"Fn::Select": [0, {"Fn::GetAtt": ["Logs", "DnsEntries"]}]}
    outputs["Card"] = {"Fn::Select": [0, {"Fn::GetAtt": ["Logs", "NetworkInterfaceIds"]}]}
    return {
        "Resources": {
            name: {"Type": f"AWS::EC2::{kind}", "Properties": properties}
            for name, (kind, properties) in resources.items()
        },
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }


def test_endpoints_and_rules_follow_the_template(account: Account) -> None:
    ec2 = account.client("ec2")

    def describe(logical: str) -> dict[str, Any]:
        (found,) = ec2.describe_vpc_endpoints(VpcEndpointIds=[account.output(logical)])[
            "VpcEndpoints"
        ]
        return dict(found)

    def list_routed() -> set[str]:
        endpoint = account.output("S3")
        return {
            name
            for name in ("Kept", "Old", "New")
            for table in ec2.describe_route_tables(RouteTableIds=[account.output(name)])["RouteTables"]
            if any(route.get("GatewayId") == endpoint for route in table["Routes"])
        }  # fmt: skip

    def list_egress(logical: str) -> list[tuple[str, list[str]]]:
        (group,) = ec2.describe_security_groups(GroupIds=[account.output(logical)])[
            "SecurityGroups"
        ]
        return [(one["IpProtocol"], [block["CidrIp"] for block in one["IpRanges"]])
                for one in group["IpPermissionsEgress"]]  # fmt: skip

    assert account.deploy(template(changed=False)) == "CREATE_COMPLETE"
    before = {name: account.output(name) for name in ("S3", "Logs")}
    assert list_routed() == {"Kept", "Old"}
    assert '"s3:Get*"' in describe("S3")["PolicyDocument"]
    logs = describe("Logs")
    assert logs["SubnetIds"] == [account.output("A")]
    assert account.output("Dns").endswith(f":{logs['DnsEntries'][0]['DnsName']}")
    assert account.output("Card") == logs["NetworkInterfaceIds"][0]
    assert (list_egress("Open"), list_egress("Closed")) == (
        [("-1", ["0.0.0.0/0"])], [("tcp", ["10.0.0.0/16"])],
    )  # fmt: skip
    (group,) = ec2.describe_security_groups(GroupIds=[account.output("Open")])["SecurityGroups"]
    assert group["IpPermissions"][0]["Ipv6Ranges"] == [{"CidrIpv6": "::/0"}]

    assert account.deploy(template(changed=True)) == "UPDATE_COMPLETE"
    assert {name: account.output(name) for name in before} == before
    assert list_routed() == {"Kept", "New"}
    assert '"Action": "*"' in describe("S3")["PolicyDocument"]
    logs = describe("Logs")
    assert (logs["SubnetIds"], logs["PrivateDnsEnabled"]) == ([account.output("B")], False)
    assert [one["GroupId"] for one in logs["Groups"]] == [account.output("Closed")]
    assert list_egress("Closed") == [("-1", ["0.0.0.0/0"])]

    assert account.deploy(template(changed=False)) == "UPDATE_COMPLETE"
    assert (list_routed(), describe("Logs")["PrivateDnsEnabled"]) == ({"Kept", "Old"}, True)
    assert account.delete() == "DELETE_COMPLETE"
    assert {one["State"] for one in ec2.describe_vpc_endpoints()["VpcEndpoints"]} == {"deleted"}
