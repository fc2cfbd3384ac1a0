"""A live model as a table of the file: its image, archive or folder, variables, and package."""

from dataclasses import replace
from typing import Any

import pytest

from infra.catalog import images
from model_packaging.refusal import PackagingError
from servable.init.adoption.expressed_model import (
    ExpressedModel,
    convert_model,
    is_secret,
)
from servable.init.adoption.live_snapshot import LiveSnapshot
from tests.servable.adoption.snapshots import ARCHIVE, ARN, IMAGE, URI, snapshot

SHA, PREFIX = "a" * 64, "s3://team/files/"
ARTIFACT = {"uri": URI, "sha256": SHA, "size_bytes": 12, "size_gib": 0.001}
ROLE = {"execution_role": "arn:aws:iam::123456789012:role/sagemaker"}
STOCK = {"tensorflow": "2.20", **ROLE}


def express(
    live: LiveSnapshot | None = None,
    taken: tuple[str, ...] = (),
    kind: str = "ml.c5.xlarge",
    **more: Any,
) -> ExpressedModel:
    shown = live or snapshot(**more)
    return convert_model(shown, "ranker-1", instance_type=kind, taken={key: {} for key in taken})


def rows(model: ExpressedModel) -> list[tuple[str, object, str]]:
    return [(row.where.removeprefix("model ranker-1: "), row.value, row.effect)
            for row in model.not_carried]  # fmt: skip


def with_variables(**variables: str) -> ExpressedModel:
    return express(container={"Environment": variables})


# --- the image


@pytest.mark.parametrize(
    ("image", "kind", "table"),
    [
        (IMAGE, "ml.c5.xlarge", {"tensorflow": "2.20"}),
        (IMAGE, "ml.g4dn.xlarge", {"image": IMAGE, "tensorflow": "2.20"}),
        (IMAGE.replace("-cpu-", "-gpu-"), "ml.g4dn.xlarge", {"tensorflow": "2.20"}),
        (IMAGE, "ml.none.such", {"tensorflow": "2.20"}),
        (IMAGE.replace("us-east-1", "eu-west-1"), "ml.c5.xlarge",
         {"image": IMAGE.replace("us-east-1", "eu-west-1"), "tensorflow": "2.20"}),
        ("1.dkr.ecr.us-east-1.amazonaws.com/own:2.20-ours", "ml.c5.xlarge",
         {"image": "1.dkr.ecr.us-east-1.amazonaws.com/own:2.20-ours", "tensorflow": "2.20"}),
        ("1.dkr.ecr.us-east-1.amazonaws.com/pytorch:1.0", "ml.c5.xlarge",
         {"image": "1.dkr.ecr.us-east-1.amazonaws.com/pytorch:1.0"}),
    ],
)  # fmt: skip
def test_aws_s_image_of_the_instance_type_is_a_version_and_others_are_images(
    image: str, kind: str, table: dict[str, str]
) -> None:
    model = express(kind=kind, container={"Image": image})
    assert model.table == {"artifact": ARTIFACT, **table, **ROLE}


@pytest.mark.parametrize("version", images.list_versions())
def test_every_version_of_the_catalog_is_known_by_its_image(version: str) -> None:
    stock = images.find_image(version=version, device="cpu", region="us-east-1")
    assert express(container={"Image": stock.uri}).table["tensorflow"] == version
    assert "image" not in express(container={"Image": stock.uri}).table


def test_a_region_without_an_image_has_no_stock_version() -> None:
    live = replace(snapshot(), region="xx-north-1")
    assert express(live).table == {"artifact": ARTIFACT, "image": IMAGE, **STOCK}


# --- the archive


def test_a_container_s_data_source_is_its_address() -> None:
    source = {"S3DataSource": {"S3Uri": URI, "S3DataType": "S3Object", "CompressionType": "Gzip"}}
    model = express(container={"ModelDataUrl": None, "ModelDataSource": source})
    assert (model.table, rows(model)) == ({"artifact": ARTIFACT, **STOCK}, [])


def test_an_archive_that_was_not_read_has_no_size_and_no_hash() -> None:
    model = express(replace(snapshot(), archives={}))
    assert model.table["artifact"] == {"uri": URI, "sha256": "0" * 64}
    assert model.name == "model"


def test_a_small_archive_has_the_smallest_size() -> None:
    assert express(archive=replace(ARCHIVE, size_gib=0.0)).table["artifact"]["size_gib"] == 0.001
    assert express(archive=replace(ARCHIVE, size_gib=2.5)).table["artifact"]["size_gib"] == 2.5


def test_the_default_model_names_the_table_unless_the_name_is_taken() -> None:
    many = replace(ARCHIVE, models={"b": [1], "a": [1]})
    model = express(archive=many)
    assert model.name == "a"
    assert [(where, effect) for where, _, effect in rows(model)] == [(URI, "changed")]
    chosen = {"Environment": {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "b"}}
    model = express(archive=many, container=chosen)
    assert (model.name, rows(model), model.variables) == ("b", [], {})
    model = express(archive=many, container=chosen, taken=("b",))
    assert (model.name, model.table["artifact"]["default_model"]) == ("ranker-1", "b")
    model = express(archive=many, container=chosen, taken=("b", "ranker-1", "ranker-1-2"))
    assert model.name == "ranker-1-3"


def test_isolation_and_network_are_the_model_s() -> None:
    vpc = {"Subnets": ["subnet-1"], "SecurityGroupIds": []}
    model = express(model={"EnableNetworkIsolation": True, "VpcConfig": vpc})
    assert (model.table["network_isolation"], model.network) == (True, {"subnets": ["subnet-1"]})
    model = express(model={"EnableNetworkIsolation": False, "ExecutionRoleArn": None})
    assert model.table == {"artifact": ARTIFACT, "tensorflow": "2.20"}


def test_what_no_key_says_of_a_model_is_listed() -> None:
    model = express(
        model={
            "InferenceExecutionConfig": {"Mode": "Direct"},
            "DeploymentRecommendation": {"a": 1},
        },
        container={"Mode": "SingleModel", "ImageConfig": {"RepositoryAccessMode": "Vpc"}},
    )
    assert rows(model) == [
        ("InferenceExecutionConfig.Mode", "Direct", "lost"),
        ("container: ImageConfig.RepositoryAccessMode", "Vpc", "lost"),
    ]
    platform = {"ImageConfig": {"RepositoryAccessMode": "Platform"}, "ContainerHostname": "h"}
    assert rows(express(container=platform)) == []


# --- files under a prefix


def below(*names: str, taken: tuple[str, ...] = (), **container: Any) -> ExpressedModel:
    source = {
        "S3DataSource": {"S3Uri": PREFIX, "S3DataType": "S3Prefix", "CompressionType": "None"}
    }
    live = snapshot(
        container={"ModelDataUrl": None, "ModelDataSource": source, **container},
        prefixes={PREFIX: names},
    )
    return express(live, taken)


def test_files_under_a_prefix_are_packed_from_a_folder() -> None:
    model = below("export/half/1/saved_model.pb", "export/half/1/variables/x")
    folder = {"saved_model": "models/ranker-1", "compression": "none", **STOCK}
    assert (model.models, model.sources) == ({"half": folder}, {"models/ranker-1": PREFIX})
    (row,) = model.not_carried
    assert (row.where, row.effect, "where requests name" in row.reason) == (
        PREFIX,
        "changed",
        False,
    )
    assert below("1/saved_model.pb").name == "model"


def test_a_model_that_requests_name_otherwise_from_then_on_is_told() -> None:
    model = below("half_two/1/saved_model.pb")
    assert (model.name, list(model.sources)) == ("ranker-1", ["models/ranker-1"])
    assert "where requests name the model ranker-1 and not half_two" in model.not_carried[0].reason
    model = below("half/1/saved_model.pb", taken=("half",))
    assert "where requests name the model ranker-1 and not half" in model.not_carried[0].reason
    chosen = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "named"}
    assert below("half/1/saved_model.pb", Environment=chosen).name == "named"


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("code/inference.py", True),
        ("code/requirements.txt", True),
        ("code/lib/x.py", True),
        ("code/other.py", False),
        ("1/code/inference.py", False),
    ],
)
def test_code_under_a_prefix_is_the_table_s(name: str, code: bool) -> None:
    table = below("1/saved_model.pb", name).table
    assert table.get("code") == ("models/ranker-1/code" if code else None)


# --- a multi-model endpoint


def several(*keys: str) -> ExpressedModel:
    many = "s3://team/many/"
    live = snapshot(container={"Mode": "MultiModel", "ModelDataUrl": many}, prefixes={many: keys})
    return express(live)


def test_the_archives_of_a_multi_model_endpoint_are_tables() -> None:
    model = several("first.tar.gz", "second.tar.gz", "note.txt", "a/b.tar.gz", "ranker-1.tar.gz")
    assert model.models == {
        "ranker-1": {"multi_model": ["first", "second"], **STOCK},
        "first": {"saved_model": "models/first", "tensorflow": "2.20"},
        "second": {"saved_model": "models/second", "tensorflow": "2.20"},
    }
    assert model.sources == {
        f"models/{name}": f"s3://team/many/{name}.tar.gz" for name in ("first", "second")
    }
    lost = [f"s3://team/many/{name}" for name in ("note.txt", "a/b.tar.gz", "ranker-1.tar.gz")]
    assert rows(model) == [*((each, None, "lost") for each in lost),
                           ("s3://team/many/", None, "changed")]  # fmt: skip


def test_a_multi_model_endpoint_without_an_archive_is_refused() -> None:
    with pytest.raises(PackagingError, match="contains no model archive"):
        several("note.txt")


def test_a_member_of_an_own_image_has_no_version() -> None:
    live = snapshot(
        container={"Mode": "MultiModel", "ModelDataUrl": "s3://team/many/", "Image": "1.ecr/own:x"},
        prefixes={"s3://team/many/": ["first.tar.gz"]},
    )
    assert express(live).models["first"] == {"saved_model": "models/first"}


# --- variables and packages


def test_batching_s_settings_are_read_only_with_its_switch() -> None:
    size = {"SAGEMAKER_TFS_MAX_BATCH_SIZE": "16"}
    model = with_variables(SAGEMAKER_TFS_ENABLE_BATCHING="True", **size)
    assert (model.container, rows(model)) == ({"batching": {"max_batch_size": 16}}, [])
    model = with_variables(SAGEMAKER_TFS_ENABLE_BATCHING="false", **size)
    assert model.container == {}
    assert rows(model) == [("variable SAGEMAKER_TFS_MAX_BATCH_SIZE", "16", "none")]


def test_variables_are_settings_own_inert_or_listed() -> None:
    model = with_variables(
        OMP_NUM_THREADS="2", FEATURES="v2", SAGEMAKER_BIND_TO_PORT="8080",
        SAGEMAKER_TFS_INSTANCE_COUNT="many", DB_PASSWORD="hunter2", SERVABLE_ARTIFACT_SHA256=SHA,
    )  # fmt: skip
    assert (model.variables, model.container) == ({"FEATURES": "v2"}, {"omp_threads": 2})
    assert rows(model) == [
        ("variable DB_PASSWORD", "(not shown)", "lost"),
        ("variable SAGEMAKER_BIND_TO_PORT", "8080", "none"),
        ("variable SAGEMAKER_TFS_INSTANCE_COUNT", "many", "lost"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("MAX_TOKENS", "99999", False),
        ("MAX_TOKENS", "100000", True),
        ("MAX_TOKENS", "51x", True),
        ("KEY_HASH", "a1" * 16, True),
        ("KEY_HASH", ("a1" * 16)[1:], False),
        ("DB_PASSWORD", "true", False),
        ("DB_PASSWORD", "", False),
    ],
)
def test_the_limits_of_what_looks_like_a_secret(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


@pytest.mark.parametrize(
    ("account", "stated"),
    [("123456789012", "ranker/3"), ("210987654321", f"{ARN}:model-package/ranker/3")],
)
def test_a_package_s_container_lies_beneath_the_model_s(account: str, stated: str) -> None:
    arn = f"{ARN}:model-package/ranker/3".replace("123456789012", account)
    packed = {"Image": IMAGE, "ModelDataUrl": URI, "Environment": {"A": "1", "B": "1"}}
    package = {"InferenceSpecification": {"Containers": [packed]}}
    live = snapshot(
        model={"PrimaryContainer": {"ModelPackageName": arn, "Environment": {"B": "2"}}},
        packages={arn: package},
    )
    model = express(live)
    artifact = {**ARTIFACT, "model_package": stated.replace("123456789012", account)}
    assert model.table == {"artifact": artifact, **STOCK}
    assert (model.variables, rows(model)) == ({"A": "1", "B": "2"}, [])
