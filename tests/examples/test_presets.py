"""The systems of the articles, as folders of environments: checked, and synthesised."""

import pytest

from infra.parameters.finding import Severity
from infra.parameters.loading import load
from infra.preflight.check import check, select_errors
from tests.checkouts import ROOT
from tests.conftest import valid
from tests.presets import templates

PRESETS = ("detector", "large_models", "pages", "ranking", "retrieval")
LOADED = {
    f"{preset}/{one.name}": one
    for preset in PRESETS
    for one in load(ROOT, ROOT / "examples" / preset)
}
# What a preset accepts, as its README says.
ACCEPTED = {name: ["image-ended", "instance-retired"] for name in ("pages/p2", "detector/p3")}
WORKING = [name for name in LOADED if not name.endswith("/refused")]


def test_every_preset_has_its_environments() -> None:
    large = ("one-gpu", "refused", "split-1", "split-2", "split-3", "split-4")
    assert sorted(LOADED) == [
        *("detector/g5", "detector/p3"), *(f"large_models/{name}" for name in large),
        *("pages/g4dn", "pages/p2", "ranking/c5", "retrieval/c5"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", WORKING)
def test_only_what_its_readme_accepts_is_found_also_with_the_real_model(name: str) -> None:
    preset, _, own = name.partition("/")
    real = {own: {"variants.primary.model": "real"}}
    (with_real,) = (one for one in load(ROOT, ROOT / "examples" / preset, real) if one.name == own)
    for loaded in (LOADED[name], with_real):
        found = check(loaded)
        assert [str(one) for one in found if one.severity is not Severity.ACKNOWLEDGED] == []
    assert [one.rule for one in check(LOADED[name])] == ACCEPTED.get(name, [])


def test_a_preset_whose_article_scales_finely_scales() -> None:
    for name in ("ranking/c5", "retrieval/c5"):
        assert [*valid(LOADED[name]).environment.scaling_tables] == ["primary"]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_brings_a_small_model_and_says_what_the_article_did(preset: str) -> None:
    files = [one for one in (ROOT / "examples" / preset).rglob("*") if one.is_file()]
    assert {"saved_model.pb", "variables.index"} <= {one.name for one in files}
    assert max(one.stat().st_size for one in files) <= 200_000
    assert "The article" in (ROOT / "examples" / preset / "README.md").read_text()


def test_forty_gigabytes_on_four_t4s_are_refused_for_the_gpus_memory() -> None:
    errors = select_errors(check(LOADED["large_models/refused"]))
    assert [one.rule for one in errors] == ["gpu-memory"]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        (
            "retrieval/c5",
            "TFS_INSTANCE_COUNT=8 GUNICORN_WORKERS=36 TFS_INTER_OP_PARALLELISM=1 "
            "TFS_INTRA_OP_PARALLELISM=1",
        ),
        (
            "detector/p3",
            "TFS_INSTANCE_COUNT=4 GUNICORN_WORKERS=16 TFS_FRACTIONAL_GPU_MEM_MARGIN=0.2",
        ),
        (
            "ranking/c5",
            "TFS_MAX_BATCH_SIZE=128000 TFS_NUM_BATCH_THREADS=16 TFS_INTRA_OP_PARALLELISM=16 "
            "GUNICORN_WORKERS=8",
        ),
        ("large_models/one-gpu", "GUNICORN_WORKERS=12"),
    ],
)
def test_the_container_gets_the_articles_settings(name: str, settings: str) -> None:
    resources = templates(name)["endpoint"]["Resources"].values()
    (model,) = (one for one in resources if one["Type"] == "AWS::SageMaker::Model")
    found = model["Properties"]["PrimaryContainer"]["Environment"]
    assert {f"SAGEMAKER_{one}" for one in settings.split()} <= {*map("=".join, found.items())}
    assert name != "ranking/c5" or found["TF_ENABLE_ONEDNN_OPTS"] == "0"
