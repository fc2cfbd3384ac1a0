"""A live model as a table of the file: its image, archive or folder, variables, and package."""

from dataclasses import replace
from typing import Any

import pytest

from infra.catalog import images
from model_packaging.refusal import PackagingError
from servable.init.adoption.expressed_model import ExpressedModel, _choose_free_name
from servable.init.adoption.live_snapshot import LiveSnapshot
from tests.servable.adoption import snapshots
from tests.servable.adoption.snapshots import ARCHIVE, ARN, IMAGE, URI, Row, snapshot

SHA, PREFIX = "a" * 64, "s3://team/files/"
ARTIFACT = {"uri": URI, "sha256": SHA, "size_bytes": 12, "size_gib": 0.001}
ROLE = {"execution_role": snapshots.ROLE}
STOCK = {"tensorflow": "2.20", **ROLE}


def express(
    live: LiveSnapshot | None = None, taken: tuple[str, ...] = (), kind: str = "ml.c5.xlarge", **more: Any
) -> ExpressedModel:  # fmt: skip
    return ExpressedModel(live or snapshot(**more), "ranker-1", kind, taken)


def rows(model: ExpressedModel) -> list[Row]:
    return snapshots.rows(model, "model ranker-1: ")


def with_variables(**variables: str) -> ExpressedModel:
    return express(container={"Environment": variables})


# --- the image
def test_aws_s_image_is_a_version_of_the_catalog_and_others_are_images() -> None:
    elsewhere = IMAGE.replace("us-east-1", "eu-west-1")
    registry = "1.dkr.ecr.us-east-1.amazonaws.com"
    own, other = f"{registry}/own:2.20-ours", f"{registry}/pytorch:1.0"
    cases: list[tuple[str, str, dict[str, str]]] = [
        (IMAGE, "ml.c5.xlarge", {"tensorflow": "2.20"}),
        (IMAGE, "ml.g4dn.xlarge", {"image": IMAGE, "tensorflow": "2.20"}),
        (IMAGE.replace("-cpu-", "-gpu-"), "ml.g4dn.xlarge", {"tensorflow": "2.20"}),
        (IMAGE, "ml.none.such", {"tensorflow": "2.20"}),
        (elsewhere, "ml.c5.xlarge", {"image": elsewhere, "tensorflow": "2.20"}),
        (own, "ml.c5.xlarge", {"image": own, "tensorflow": "2.20"}),
        (other, "ml.c5.xlarge", {"image": other}),
    ]
    for image, kind, table in cases:
        model = express(kind=kind, container={"Image": image})
        assert model.table == {"artifact": ARTIFACT, **table, **ROLE}

    for version in images.list_versions():
        stock = images.find_image(version=version, device="cpu", region="us-east-1")
        table = express(container={"Image": stock.uri}).table
        assert (table["tensorflow"], "image" in table) == (version, False)
    live = replace(snapshot(), region="xx-north-1")
    assert express(live).table == {"artifact": ARTIFACT, "image": IMAGE, **STOCK}


# --- the archive
def test_an_archive_is_its_address_and_its_default_model_names_the_table() -> None:
    source = {"S3DataSource": {"S3Uri": URI, "S3DataType": "S3Object", "CompressionType": "Gzip"}}
    model = express(container={"ModelDataUrl": None, "ModelDataSource": source})
    assert (model.table, rows(model)) == ({"artifact": ARTIFACT, **STOCK}, [])
    for size, stated in ((0.0, 0.001), (2.5, 2.5)):
        table = express(archive=replace(ARCHIVE, size_gib=size)).table
        assert table["artifact"]["size_gib"] == stated
    model = express(replace(snapshot(), archives={}))
    assert (model.name, model.table["artifact"]) == ("model", {"uri": URI, "sha256": "0" * 64})

    vpc = {"Subnets": ["subnet-1"], "SecurityGroupIds": []}
    model = express(model={"EnableNetworkIsolation": True, "VpcConfig": vpc})
    assert (model.table["network_isolation"], model.network) == (True, {"subnets": ["subnet-1"]})
    model = express(model={"EnableNetworkIsolation": False, "ExecutionRoleArn": None})
    assert model.table == {"artifact": ARTIFACT, "tensorflow": "2.20"}

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
    names: list[str] = []
    for _ in range(10):
        names.append(_choose_free_name("m" * 80, names))
    assert (names[0], names[9]) == ("m" * 63, f"{'m' * 60}-10")


def test_what_no_key_says_is_listed_and_a_package_lies_beneath_the_model() -> None:
    other = {"InferenceExecutionConfig": {"Mode": "Direct"}, "DeploymentRecommendation": {"a": 1}}
    container = {"Mode": "SingleModel", "ImageConfig": {"RepositoryAccessMode": "Vpc"}}
    assert rows(express(model=other, container=container)) == [
        ("InferenceExecutionConfig.Mode", "Direct", "lost"),
        ("container: ImageConfig.RepositoryAccessMode", "Vpc", "lost"),
    ]
    platform = {"ImageConfig": {"RepositoryAccessMode": "Platform"}, "ContainerHostname": "h"}
    assert rows(express(container=platform)) == []
    packed = {"Image": IMAGE, "ModelDataUrl": URI, "Environment": {"A": "1", "B": "1"}}
    package = {"InferenceSpecification": {"Containers": [packed]}}
    arn = f"{ARN}:model-package/ranker/3"
    foreign = arn.replace("123456789012", "210987654321")
    for name, stated in [(arn, "ranker/3"), (foreign, foreign)]:
        container = {"ModelPackageName": name, "Environment": {"B": "2"}}
        model = express(model={"PrimaryContainer": container}, packages={name: package})
        artifact = {**ARTIFACT, "model_package": stated}
        assert model.table == {"artifact": artifact, **STOCK}
        assert (model.variables, rows(model)) == ({"A": "1", "B": "2"}, [])


# --- files under a prefix


def below(*names: str, taken: tuple[str, ...] = (), **container: Any) -> ExpressedModel:
    source = {"S3Uri": PREFIX, "S3DataType": "S3Prefix", "CompressionType": "None"}
    fields = {"ModelDataUrl": None, "ModelDataSource": {"S3DataSource": source}, **container}
    return express(None, taken, container=fields, prefixes={PREFIX: names})


def test_files_under_a_prefix_and_archives_of_a_multi_model_endpoint_are_folders() -> None:
    model = below("export/half/1/saved_model.pb", "export/half/1/variables/x")
    folder = {"saved_model": "models/ranker-1", "compression": "none", **STOCK}
    assert (model.models, model.sources) == ({"half": folder}, {"models/ranker-1": PREFIX})
    (row,) = model.not_carried
    found = (row.where, row.effect, "where requests name" in row.reason)
    assert found == (PREFIX, "changed", False)
    assert below("1/saved_model.pb").name == "model"

    model = below("half_two/1/saved_model.pb")
    assert (model.name, list(model.sources)) == ("ranker-1", ["models/ranker-1"])
    assert "where requests name the model ranker-1 and not half_two" in model.not_carried[0].reason
    model = below("half/1/saved_model.pb", taken=("half",))
    assert "where requests name the model ranker-1 and not half" in model.not_carried[0].reason
    chosen = {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "named"}
    assert below("half/1/saved_model.pb", Environment=chosen).name == "named"
    for name in ("code/inference.py", "code/requirements.txt", "code/lib/x.py"):
        assert below("1/saved_model.pb", name).table["code"] == "models/ranker-1/code"
    for name in ("code/other.py", "1/code/inference.py"):
        assert "code" not in below("1/saved_model.pb", name).table

    # --- a multi-model endpoint
    many = "s3://team/many/"

    def several(*keys: str, **container: str) -> ExpressedModel:
        fields = {"Mode": "MultiModel", "ModelDataUrl": many, **container}
        return express(container=fields, prefixes={many: keys})

    model = several("first.tar.gz", "second.tar.gz", "note.txt", "a/b.tar.gz", "ranker-1.tar.gz")
    assert model.models == {
        "ranker-1": {"multi_model": ["first", "second"], **STOCK},
        "first": {"saved_model": "models/first", "tensorflow": "2.20"},
        "second": {"saved_model": "models/second", "tensorflow": "2.20"},
    }
    assert model.sources == {
        f"models/{each}": f"{many}{each}.tar.gz" for each in ("first", "second")
    }
    lost = [f"{many}{name}" for name in ("note.txt", "a/b.tar.gz", "ranker-1.tar.gz")]
    assert rows(model) == [*((each, None, "lost") for each in lost), (many, None, "changed")]
    own = several("first.tar.gz", Image="1.ecr/own:x")
    assert own.models["first"] == {"saved_model": "models/first"}
    with pytest.raises(PackagingError, match="contains no model archive"):
        several("note.txt")


# --- variables and packages
def test_batching_and_other_variables_are_settings_own_inert_or_listed() -> None:
    size = {"SAGEMAKER_TFS_MAX_BATCH_SIZE": "16"}
    model = with_variables(SAGEMAKER_TFS_ENABLE_BATCHING="True", **size)
    assert (model.container, rows(model)) == ({"batching": {"max_batch_size": 16}}, [])
    model = with_variables(SAGEMAKER_TFS_ENABLE_BATCHING="false", **size)
    assert model.container == {}
    assert rows(model) == [("variable SAGEMAKER_TFS_MAX_BATCH_SIZE", "16", "none")]
    for unsayable in ("many", "0", "04"):
        model = with_variables(
            OMP_NUM_THREADS="2", FEATURES="v2", SAGEMAKER_BIND_TO_PORT="8080", DB_PASSWORD="hunter2",
            SAGEMAKER_TFS_INSTANCE_COUNT=unsayable, SERVABLE_ARTIFACT_SHA256=SHA,
        )  # fmt: skip
        assert (model.variables, model.container) == ({"FEATURES": "v2"}, {"omp_threads": 2})
        assert rows(model) == [
            ("variable DB_PASSWORD", "(not shown)", "lost"),
            ("variable SAGEMAKER_BIND_TO_PORT", "8080", "none"),
            ("variable SAGEMAKER_TFS_INSTANCE_COUNT", unsayable, "lost"),
        ]
