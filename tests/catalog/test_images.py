"""Our image URIs are the SageMaker SDK's own, for every region, version and device; an image's operations."""

import functools
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.catalog import images
from infra.catalog.images import find_op_table
from scripts.ops_table import ADDED, as_rows, as_tables, as_text
from scripts.ops_table import _convert_value as value
from scripts.ops_table import _merge_kernels as merged
from servable_tensors import wire

# Not imported yet: that takes seconds, also in a process that runs none of these tests.
_SAGEMAKER = importlib.util.find_spec("sagemaker")
assert _SAGEMAKER is not None
assert _SAGEMAKER.origin is not None
_FILE = Path(_SAGEMAKER.origin).with_name("core") / "image_uri_config" / "tensorflow.json"
SDK = json.loads(_FILE.read_text())["inference"]
ALIASES = SDK["version_aliases"]
SERVED = [
    version
    for version in [*ALIASES, *SDK["versions"]]
    if version.startswith("2.")
    and SDK["versions"][ALIASES.get(version, version)]["repository"] == "tensorflow-inference"
]
DEVICES = {"cpu": "ml.c5.xlarge", "gpu": "ml.g4dn.xlarge"}


@pytest.fixture(scope="module")
def image_uris() -> Iterator[Any]:
    """The resolver reads AWS's endpoints and its own table again for every call; here once."""
    from sagemaker.core import common_utils, image_uris

    with pytest.MonkeyPatch.context() as patch:
        for module, name in (
            (common_utils, "_botocore_resolver"),
            (image_uris, "config_for_framework"),
        ):
            patch.setattr(module, name, functools.cache(getattr(module, name)))
        yield image_uris


@pytest.mark.parametrize("device", sorted(DEVICES))
@pytest.mark.parametrize("version", SERVED)
def test_every_region_gets_the_sdks_image(image_uris: Any, version: str, device: str) -> None:
    theirs = {
        region: image_uris.retrieve(
            "tensorflow",
            region,
            version=version,
            instance_type=DEVICES[device],
            image_scope="inference",
        )
        for region in SDK["versions"][ALIASES.get(version, version)]["registries"]
    }
    ours = {
        region: images.find_image(version=version, device=device, region=region).uri
        for region in images.list_regions(version)
    }
    assert ours == theirs


def test_every_version_that_the_sdk_serves_is_in_the_catalog() -> None:
    assert sorted(images.list_versions()) == sorted(SERVED)


def test_patches_of_what_is_older_than_an_ended_version_have_ended() -> None:
    for version, end in [("2.20", None), ("2.19", "2026-03-11"), ("2.18", "2026-03-11")]:
        assert images.find_end_of_patch(version) == end


DIGEST = "sha256:" + "a" * 64


def test_an_image_of_ones_own_keeps_its_address_and_is_in_ecr() -> None:
    for uri, tag in [
        ("111111111111.dkr.ecr.eu-west-1.amazonaws.com/team/serving:v3", "v3"),
        ("111111111111.dkr.ecr.eu-west-1.amazonaws.com/team/serving", "latest"),
        (f"111111111111.dkr.ecr.cn-north-1.amazonaws.com.cn/serving@{DIGEST}", ""),
    ]:
        image = images.parse_own_image(uri)
        assert image is not None
        assert (image.uri, image.tag) == (uri, tag)
    for uri in ["serving:v3", "docker.io/library/nginx:1", "1.dkr.ecr.x.y/z"]:
        assert images.parse_own_image(uri) is None


CATALOG = Path(images.__file__).parent
OPS = {"2.9": {"A": {"x": 1}, "B": {}}, "2.10": {"A": {"x": 1}}, "2.11": {"A": {"x": 2}, "B": {}}}


def test_rows_keep_each_definition_where_it_is_new_and_give_the_tables_back() -> None:
    assert as_rows(OPS) == {
        "A": {"2.9": {"x": 1}, "2.11": {"x": 2}},
        "B": {"2.9": {}, "2.10": None, "2.11": {}},
    }
    assert as_tables(as_rows(OPS), OPS) == OPS

    text = (CATALOG / "ops.jsonl").read_text(encoding="utf-8")
    known = json.loads((CATALOG / "op_versions.json").read_text(encoding="utf-8"))["versions"]
    rows = dict(json.loads(line) for line in text.splitlines())
    assert as_text(as_rows(as_tables(rows, known))) == text

    assert (CATALOG / "ops.jsonl").stat().st_size < 1_000_000


def test_a_default_is_as_it_is_read_from_the_file_again() -> None:
    """Else a version that is added stands beside an equal one in every row."""
    found = value(wire.AttrValue(s=b"x"))
    assert found == json.loads(json.dumps(found))


def test_kernels_are_merged_by_one_attribute_only() -> None:
    given = [{"T": [1], "S": [3]}, {"T": [2], "S": [3]}, {"T": [1], "S": [9]}, {"T": [2], "S": [9]}]
    assert merged(given) == [{"S": [3, 9], "T": [1, 2]}]
    given = [{"T": [1], "S": [3]}, {"T": [2], "S": [9]}]
    assert merged(given) == [{"S": [3], "T": [1]}, {"S": [9], "T": [2]}]
    assert merged([{"T": [1]}, {}]) == [{}]


def test_every_image_from_2_12_on_has_a_table_of_operations() -> None:
    for version, known in [("2.11", False), ("2.12", True), ("2.12.1", True)]:
        assert (find_op_table(version) is not None) is known

    new = [one for one in images.list_versions() if images.parse_version(one) >= (2, 12)]
    assert [one for one in new if find_op_table(one) is None] == []
    assert {since for since, *_ in ADDED} <= set(images.list_versions())
    for op in ["Abs", "XlaCallModule", "NoOp", "WordpieceTokenizeWithOffsets"]:
        for version in ["2.12", "2.20"]:
            table = find_op_table(version)
            assert table is not None
            assert op in table
