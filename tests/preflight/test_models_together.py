"""Several models in one archive or behind one endpoint; warm-up requests."""

import json
import shutil
from pathlib import Path

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

    (unknown,) = said(environment, ALSO + SCORER.replace("scorer", "scorers"))
    assert (unknown.problem, unknown.remedy) == (
        "there is no model 'scorer'",
        "did you mean scorers?",
    )

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


WARMED = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\nwarm_up = ["golden.json"]')


def test_a_golden_request_that_cannot_warm_up_is_named(
    environment: Environment, project: Path
) -> None:
    golden, extra = project / "golden.json", project / "model" / "1" / "assets.extra"
    shutil.copyfile(GOLDEN / "request-rows.json", golden)
    assert said(environment, WARMED) == []
    extra.mkdir()
    for content, text, problem, remedy in [
        (b"", WARMED, "exists already", None),
        (b"x", VALID, "is damaged: record 0: the file ends inside the length", "write it again"),
    ]:
        (extra / "tf_serving_warmup_requests").write_bytes(content)
        found = said(environment, text)[0]
        assert found.problem.endswith(f"tf_serving_warmup_requests: {problem}")
        assert remedy in (None, found.remedy)
    shutil.rmtree(extra)

    golden.write_text(json.dumps({"inputs": {"other": [1]}}))
    problem = "golden.json: the request gives other; the signature expects feat_ids, feat_vals"
    key, remedy = "models.ranker.warm_up", "correct the request"
    assert said(environment, WARMED) == [(key, problem, "", remedy)]
    golden.write_text("{")
    assert said(environment, WARMED)[0].problem.startswith("golden.json: is not JSON: ")
    golden.unlink()
    problem = "golden.json: cannot be read: No such file or directory"
    remedy = "check the golden request's path"
    assert said(environment, WARMED) == [(key, problem, "", remedy)]
