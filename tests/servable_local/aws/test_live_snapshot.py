"""A live endpoint, read from the local AWS with all that belongs to it and nothing of its neighbours."""

import io
import tarfile
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from infra.catalog import images
from model_packaging.refusal import PackagingError
from servable.init.adoption.live_snapshot import (
    LiveSnapshot,
    find_container,
    find_data_uri,
    find_image_version,
    is_capturing,
    iterate_model_names,
    iterate_variants,
    read_live_snapshot,
)
from servable.project.account import Account
from tests.servable_local.aws.live_endpoints import (
    ARCHIVE,
    CODE,
    LIVE,
    NAME,
    TRACKED,
    LiveEndpoint,
    archive,
)
from tests.servable_local.aws.local_account import Account as LocalAccount

MODEL = "ranker-2026-11-20-10-15-00"


def made(account: LocalAccount, *cases: str, body: bytes = ARCHIVE) -> LiveEndpoint:
    live = LiveEndpoint(account, body)
    for case in cases:
        LIVE[case](live)
    live.make()
    return live


def snapshot(
    account: LocalAccount, kind: str = "endpoint", name: str = NAME, **how: bool
) -> LiveSnapshot:
    return read_live_snapshot(account.open(), kind, name, **how)


def lose(account: Account, service: str, operation: str) -> None:
    """Let every call of an operation end without an answer."""

    def end(**_: Any) -> None:
        raise EndpointConnectionError(endpoint_url="https://aws")

    events = account.client(service).meta.events
    events.register_first(f"provide-client-params.{service}.{operation}", end)


def test_an_endpoint_is_read_with_all_that_belongs_to_it(account: LocalAccount) -> None:
    live = LiveEndpoint(account)
    for case in ("tags", "a composite alarm", "tags of the model and the configuration"):
        LIVE[case](live)
    live.scale(TRACKED)
    live.schedule("rate(1 day)", MinCapacity=2)
    elsewhere = [{"Name": "EndpointName", "Value": "x"}]
    for name in ("other", "slower"):
        live.alarm(name, "ModelLatency", "p99", 1.0, Dimensions=elsewhere)
    live.make()
    cloudwatch, logs = account.client("cloudwatch"), account.client("logs")
    cloudwatch.put_composite_alarm(AlarmName="unrelated", AlarmRule='ALARM("other")')
    cloudwatch.put_composite_alarm(AlarmName="longer", AlarmRule="ALARM(slower)")
    for name in (NAME, f"{NAME}-2"):
        group = f"/aws/sagemaker/Endpoints/{name}"
        if not logs.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
            logs.create_log_group(logGroupName=group)

    found = snapshot(account)
    assert (found.account, found.region, found.unread) == (account.number, "us-east-1", {})
    assert (found.endpoint["EndpointName"], found.config["EndpointConfigName"]) == (NAME, "config")
    assert [*found.models] == [MODEL]
    assert [each["MaxCapacity"] for each in found.targets] == [4]
    assert [each["PolicyName"] for each in found.policies] == ["by-hand-0"]
    assert [each["Schedule"] for each in found.scheduled] == ["rate(1 day)"]
    alarms = {each["AlarmName"] for each in found.alarms}
    assert alarms & {"slow", "slower", "other"} == {"slow"}
    assert [each["AlarmName"] for each in found.composites] == ["page"]
    assert found.tags == {"team": "ranking", "cost": "42"}
    config, model = found.other_tags["endpoint configuration"], found.other_tags[f"model {MODEL}"]
    assert (config, model) == ({"cost": "42"}, {"model-owner": "ranking"})
    assert found.log_group["logGroupName"] == f"/aws/sagemaker/Endpoints/{NAME}"
    assert (found.prefixes, found.packages, found.stacks_of_roles) == ({}, {}, {})
    logs.delete_log_group(logGroupName=found.log_group["logGroupName"])
    assert snapshot(account).log_group == {}


@pytest.mark.long
def test_the_archive_is_verified_or_left_alone(account: LocalAccount) -> None:
    files = {"code/inference.py": CODE, "code/requirements.txt": b""}
    body = archive(files=files)
    live = made(account, body=body)
    ((uri, found),) = snapshot(account).archives.items()
    assert (uri, found.models, found.size_bytes) == (live.uri, {"model": [1]}, len(body))
    with tarfile.open(fileobj=io.BytesIO(body)) as packed:
        unpacked = sum(member.size for member in packed)
    assert found.size_gib - 0.001 < unpacked / (1 << 30) <= found.size_gib
    assert (round(found.size_gib * 1000) == found.size_gib * 1000, found.problems) == (True, [])
    body = archive(root="half", files={"code/inference.py": b"def"})
    account.put_archive(body, "run-7/model.tar.gz")
    ((_, found),) = snapshot(account).archives.items()
    assert (found.models, len(found.problems)) == ({"half": [1]}, 1)
    assert found.problems[0].startswith("code/inference.py")
    assert snapshot(account, archives=False).archives == {}
    account.put_archive(b"text", "run-7/model.tar.gz")
    with pytest.raises(PackagingError, match=r"s3:/+archives-\d+/run-7/model\.tar\.gz"):
        snapshot(account)


@pytest.mark.long
def test_a_configuration_or_a_model_alone_is_read(account: LocalAccount) -> None:
    live = made(account, "tags of the model and the configuration", "tracking")
    config = snapshot(account, "config", "config")
    assert (config.endpoint, config.config["EndpointConfigName"]) == ({}, "config")
    assert (config.tags, [*config.other_tags]) == ({"cost": "42"}, [f"model {MODEL}"])
    assert (config.targets, config.policies, config.alarms, config.log_group) == ((), (), (), {})
    model = snapshot(account, "model", MODEL)
    assert (model.config, [*model.models], model.tags) == ({}, [MODEL], {"model-owner": "ranking"})
    assert (model.other_tags, [*model.archives]) == ({}, [live.uri])

    for kind, near in (("endpoint", NAME), ("config", "config"), ("model", MODEL)):
        with pytest.raises(
            PackagingError, match=f"with this name in account {account.number}.*{near}"
        ):
            snapshot(account, kind, f"{near}x")


def test_files_below_a_prefix_are_listed_by_their_names(account: LocalAccount) -> None:
    made(account, "multi-model")
    found = snapshot(account)
    ((prefix, names),) = found.prefixes.items()
    assert prefix.endswith("/many/")
    assert (sorted(names), found.archives) == (["first.tar.gz", "second.tar.gz"], {})


def test_a_package_its_archive_and_the_stack_of_a_role_are_read(account: LocalAccount) -> None:
    live = LiveEndpoint(account)
    LIVE["a version of the registry"](live)
    tag = {"Key": "aws:cloudformation:stack-name", "Value": "old"}
    account.client("iam").tag_role(RoleName="sagemaker", Tags=[{"Key": "x", "Value": "y"}, tag])
    live.make()
    found = snapshot(account)
    ((arn, package),) = found.packages.items()
    assert arn.endswith("/ranker/1")
    assert find_container(package)["ModelDataUrl"] == live.uri
    assert [*found.archives] == [live.uri]
    assert found.stacks_of_roles == {live.role: "old"}


def test_what_cannot_be_read_is_noted_or_ends_the_adoption(account: LocalAccount) -> None:
    made(account)
    owner, unread = account.open(), set[str]()
    for service, operation, what in [
        ("cloudwatch", "DescribeAlarms", "alarms"),
        ("logs", "DescribeLogGroups", "log group"),
        ("sagemaker", "ListTags", "tags"),
        ("iam", "GetRole", "role sagemaker"),
    ]:
        lose(owner, service, operation)
        unread.add(what)
        found = read_live_snapshot(owner, "endpoint", NAME, archives=False)
        assert set(found.unread) == unread
        assert "Could not connect" in found.unread[what]

    lose(owner, "s3", "HeadObject")
    with pytest.raises(PackagingError, match=r"model\.tar\.gz: cannot be read.*s3:GetObject"):
        read_live_snapshot(owner, "endpoint", NAME)
    lose(owner, "sagemaker", "DescribeEndpoint")
    with pytest.raises(PackagingError, match=f"{NAME}: cannot be read.*check the credentials"):
        read_live_snapshot(owner, "endpoint", NAME)


# --- what the answers of AWS mean
def test_an_address_of_model_data_is_one_of_s3() -> None:
    host = "s3.us-east-1.amazonaws.com"
    for address, url in [
        ("s3://team/k", "s3://team/k"),
        (f"https://team.{host}/a/k", "s3://team/a/k"),
        (f"https://{host}/team/k", "s3://team/k"),
        ("https://team.s3.cn-north-1.amazonaws.com.cn/k", "s3://team/k"),
        ("https://example.com/b/k", "https://example.com/b/k"),
    ]:
        assert find_data_uri({"ModelDataUrl": address}) == url
    prefix = {"ModelDataSource": {"S3DataSource": {"S3Uri": "s3://team/k/"}}}
    assert (find_data_uri(prefix), find_data_uri({})) == ("s3://team/k/", None)


def test_containers_models_versions_and_capture_are_read_from_the_answers() -> None:
    newest = images.list_versions()[-1]
    known = {"Image": "1.ecr/own:2.19.1-ours"}
    assert find_image_version([{}, {"Image": "1.ecr/own:9.9"}, known]) == "2.19" != newest
    assert find_image_version([{"Image": "1.ecr/own:9.9"}]) == newest
    assert find_image_version([]) == newest

    pools = [{"ModelNameOverride": "b"}, {}]
    config = {
        "ProductionVariants": [{"ModelName": "a", "InstancePools": pools}, {"ModelName": None}],
        "ShadowProductionVariants": [{"ModelName": "a"}],
    }
    assert [*iterate_model_names(config)] == ["a", "b", "a"]
    assert [shadow for _, shadow in iterate_variants(config)] == [False, False, True]
    assert [*iterate_model_names({"ProductionVariants": None})] == []

    first, second = {"Image": "1"}, {"Image": "2"}
    assert find_container({"PrimaryContainer": first, "Containers": [second]}) == first
    assert find_container({"PrimaryContainer": None, "Containers": [second, first]}) == second
    assert find_container({}) == {}
    specified = {"InferenceSpecification": {"Containers": [first, second]}}
    assert find_container(specified) == first

    for capture in ({"EnableCapture": True}, {"DestinationS3Uri": "s3://team/"}):
        assert is_capturing({"DataCaptureConfig": capture})
    for off in ({"EnableCapture": False}, None):
        assert not is_capturing({"DataCaptureConfig": off})
