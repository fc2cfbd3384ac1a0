"""A network of a stack: the rules of its security groups, and VPC endpoints that change in place."""

from typing import Any

import pytest

from tests.servable_local.aws.local_account import Account

READ = {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "s3:Get*", "Resource": "*"}]}
HTTPS = {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443}
OPEN = [("-1", "0.0.0.0/0")]


def template(changed: bool) -> dict[str, Any]:
    """The stack's first state, and its second one."""

    def refs(*names: str) -> list[dict[str, str]]:
        return [{"Ref": name} for name in names]

    def pick(before: Any, after: Any) -> Any:
        return after if changed else before

    own = [{**HTTPS, "CidrIp": "10.0.0.0/16"}]
    resources: dict[str, tuple[str, dict[str, Any]]] = {
        "A": ("Subnet", {"CidrBlock": "10.0.0.0/24", "AvailabilityZone": "us-east-1a"}),
        "B": ("Subnet", {"CidrBlock": "10.0.1.0/24", "AvailabilityZone": "us-east-1b"}),
        **{name: ("RouteTable", {}) for name in ("Kept", "Old", "New")},
        "Open": ("SecurityGroup", {
            "GroupDescription": "a", "SecurityGroupIngress": [{**HTTPS, "CidrIpv6": "::/0"}]}),
        "Closed": ("SecurityGroup", {
            "GroupDescription": "b", **pick({"SecurityGroupEgress": own}, {})}),
        "S3": ("VPCEndpoint", {
            "ServiceName": "com.amazonaws.us-east-1.s3", **pick({"PolicyDocument": READ}, {}),
            "RouteTableIds": refs("Kept", pick("Old", "New"))}),
        "Logs": ("VPCEndpoint", {
            "ServiceName": "com.amazonaws.us-east-1.logs", "VpcEndpointType": "Interface",
            "SubnetIds": refs(pick("A", "B")), "SecurityGroupIds": refs(pick("Open", "Closed")),
            "PrivateDnsEnabled": pick(True, False)}),
    }  # fmt: skip
    for _, properties in resources.values():
        properties["VpcId"] = {"Ref": "Vpc"}
    resources["Vpc"] = ("VPC", {"CidrBlock": "10.0.0.0/16"})
    outputs: dict[str, Any] = {name: {"Ref": name} for name in resources}
    for name in ("DnsEntries", "NetworkInterfaceIds"):
        outputs[name] = {"Fn::Select": [0, {"Fn::GetAtt": ["Logs", name]}]}
    declared = {k: {"Type": f"AWS::EC2::{t}", "Properties": p} for k, (t, p) in resources.items()}
    return {"Resources": declared, "Outputs": {k: {"Value": v} for k, v in outputs.items()}}


@pytest.mark.long
def test_endpoints_and_rules_follow_the_template(account: Account) -> None:
    ec2, output = account.client("ec2"), account.output

    def describe(logical: str) -> Any:
        return ec2.describe_vpc_endpoints(VpcEndpointIds=[output(logical)])["VpcEndpoints"][0]

    def list_routed() -> list[str]:
        tables = ec2.describe_route_tables()["RouteTables"]
        gateways = {t["RouteTableId"]: [r.get("GatewayId") for r in t["Routes"]] for t in tables}
        return [n for n in ("Kept", "Old", "New") if output("S3") in gateways[output(n)]]

    def find_group(logical: str) -> Any:
        return ec2.describe_security_groups(GroupIds=[output(logical)])["SecurityGroups"][0]

    def list_egress(logical: str) -> list[tuple[str, str]]:
        rules = find_group(logical)["IpPermissionsEgress"]
        return [
            (rule["IpProtocol"], block["CidrIp"]) for rule in rules for block in rule["IpRanges"]
        ]

    assert account.deploy(template(changed=False)) == "CREATE_COMPLETE"
    before, logs = [output("S3"), output("Logs")], describe("Logs")
    assert list_routed() == ["Kept", "Old"]
    assert '"s3:Get*"' in describe("S3")["PolicyDocument"]
    assert logs["SubnetIds"] == [output("A")]
    assert output("DnsEntries").endswith(f":{logs['DnsEntries'][0]['DnsName']}")
    assert output("NetworkInterfaceIds") == logs["NetworkInterfaceIds"][0]
    assert (list_egress("Open"), list_egress("Closed")) == (OPEN, [("tcp", "10.0.0.0/16")])
    assert find_group("Open")["IpPermissions"][0]["Ipv6Ranges"] == [{"CidrIpv6": "::/0"}]

    assert account.deploy(template(changed=True)) == "UPDATE_COMPLETE"
    logs = describe("Logs")
    assert [output("S3"), output("Logs")] == before
    assert (list_routed(), list_egress("Closed")) == (["Kept", "New"], OPEN)
    assert '"Action": "*"' in describe("S3")["PolicyDocument"]
    assert (logs["SubnetIds"], logs["PrivateDnsEnabled"]) == ([output("B")], False)
    assert [one["GroupId"] for one in logs["Groups"]] == [output("Closed")]

    assert account.deploy(template(changed=False)) == "UPDATE_COMPLETE"
    assert (list_routed(), describe("Logs")["PrivateDnsEnabled"]) == (["Kept", "Old"], True)
    assert account.delete() == "DELETE_COMPLETE"
    assert {one["State"] for one in ec2.describe_vpc_endpoints()["VpcEndpoints"]} == {"deleted"}
