"""Several models in one archive or behind one endpoint; warm-up requests; one SavedModel."""

import json
import shutil
from pathlib import Path

import pytest

from infra.preflight.check import check
from tests.conftest import VALID, Environment
from tests.findings import Message, messages

GOLDEN = Path(__file__).resolve().parents[2] / "examples" / "ranker" / "golden"
ALSO = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\nalso_serves = ["scorer"]')
SCORER = '[models.scorer]\nsaved_model = "model"\n'
MULTI = VALID.replace('saved_model = "model"', 'multi_model = ["one", "two"]')
MEMBERS = '[models.one]\nsaved_model = "model"\n[models.two]\nsaved_model = "model"\n'


def said(environment: Environment, text: str) -> list[Message]:
    return messages(check(environment(text)))


def test_a_model_that_cannot_go_into_the_archive_says_why(environment: Environment) -> None:
    for text in [ALSO + SCORER, MULTI + MEMBERS]:
        assert said(environment, text) == []

    assert said(environment, ALSO + SCORER.replace("scorer", "scorers")) == [
        (
            "models.ranker.also_serves",
            "there is no model 'scorer'",
            "",
            "did you mean scorers?",
        )
    ]

    artifact = f'artifact = {{ uri = "s3://models/run/m.tar.gz", sha256 = "{"a" * 64}" }}'
    text = ALSO + SCORER.replace('saved_model = "model"', artifact)
    assert said(environment, text)[0].problem == "'scorer' has no saved_model to pack"

    (finding,) = said(environment, ALSO + SCORER + 'code = "code"\n')
    assert finding.problem == "'scorer' has its own code, but an archive has only one code folder"
    for again in ["ranker", "scorer"]:
        text = ALSO.replace('["scorer"]', f'["scorer", "{again}"]') + SCORER
        assert said(environment, text)[0].problem == f"'{again}' is listed already"


def test_members_of_a_multi_model_endpoint_are_archives(environment: Environment) -> None:
    (finding,) = said(environment, MULTI + MEMBERS + 'compression = "none"\n')
    assert finding.problem == "'two' has compression none, but these models must be archives"
    for key in ['code = "code"', "version = 1", 'compression = "none"']:
        name = key.split(" ")[0]
        (finding,) = said(environment, MULTI.replace("tensorflow", f"{key}\ntensorflow") + MEMBERS)
        assert finding.key == f"models.ranker.{name}"


def test_one_savedmodel_is_accepted_with_its_version(
    environment: Environment, project: Path
) -> None:
    (project / "model" / "1").rename(project / "export")
    text = VALID.replace('saved_model = "model"', 'saved_model = "export"\nversion = 3')
    assert said(environment, text) == []


@pytest.fixture
def warmed(project: Path) -> str:
    """An environment with a golden request, which lies in golden.json."""
    shutil.copyfile(GOLDEN / "request-rows.json", project / "golden.json")
    return VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\nwarm_up = ["golden.json"]')


def test_a_golden_request_that_cannot_warm_up_is_named(
    environment: Environment, warmed: str, project: Path
) -> None:
    assert said(environment, warmed) == []
    (project / "golden.json").write_text(json.dumps({"inputs": {"other": [1]}}))
    assert said(environment, warmed) == [
        (
            "models.ranker.warm_up",
            "golden.json: the request gives other; the signature expects feat_ids, feat_vals",
            "",
            "correct the request",
        )
    ]
    (project / "golden.json").write_text("{")
    assert said(environment, warmed)[0].problem.startswith("golden.json: is not JSON: ")
    (project / "golden.json").unlink()
    assert said(environment, warmed) == [
        (
            "models.ranker.warm_up",
            "golden.json: cannot be read: No such file or directory",
            "",
            "check the golden request's path",
        )
    ]


def test_warm_up_beside_a_file_that_is_there_is_refused(
    environment: Environment, warmed: str, project: Path
) -> None:
    (project / "model" / "1" / "assets.extra").mkdir()
    (project / "model" / "1" / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"")
    assert said(environment, warmed)[0].problem.endswith(
        "tf_serving_warmup_requests: exists already"
    )


def test_a_damaged_warm_up_file_is_found(environment: Environment, project: Path) -> None:
    (project / "model" / "1" / "assets.extra").mkdir()
    (project / "model" / "1" / "assets.extra" / "tf_serving_warmup_requests").write_bytes(b"x")
    assert said(environment, VALID) == [
        (
            "models.ranker.saved_model",
            "model/1/assets.extra/tf_serving_warmup_requests: is damaged: record 0: the file ends"
            " inside the length",
            "",
            "write it again",
        )
    ]
