"""A model that the container would not load is refused; models that share an archive; warm-up requests."""

import json
import shutil
from pathlib import Path

from infra.parameters.finding import Severity
from infra.preflight.check import check
from tests.conftest import VALID, Environment
from tests.findings import Message, messages

SOURCE = "models.ranker.saved_model"


def said(environment: Environment, text: str = VALID) -> list[Message]:
    return messages(check(environment(text)))


def test_each_damage_of_a_savedmodel_is_named(environment: Environment, project: Path) -> None:
    for shard in (project / "model" / "1" / "variables").glob("*.data-*"):
        shard.unlink()
    (found,) = said(environment)
    assert found.problem.startswith("model/1/variables")
    graph = project / "model" / "1" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:1000])
    (found,) = said(environment)
    assert found.problem.startswith("model/1/saved_model.pb: ")

    graph.unlink()
    remedy = "export the SavedModel into it"
    assert said(environment) == [(SOURCE, "model/1: has no saved_model.pb", "", remedy)]
    shutil.rmtree(project / "model")
    problem = "model: the SavedModel folder does not exist"
    remedy = "use a folder that contains version folders"
    assert said(environment) == [(SOURCE, problem, "", remedy)]


def test_a_savedmodel_is_in_its_versions_folder(environment: Environment, project: Path) -> None:
    folder, named = project / "model", project / "model" / "1"
    for name, remedy in [
        ("latest", "rename model/latest to model/1"),
        ("v07", "rename model/v07 to model/7"),
        ("v0.1", "rename model/v0.1 to model/1"),
    ]:
        named = named.rename(folder / name)
        problem = "model: has no version folder named with digits only"
        assert said(environment) == [(SOURCE, problem, "", remedy)]
    shutil.copytree(named, folder / "v12")
    (found,) = said(environment)
    assert found.remedy == "rename v0.1, v12 to numbers, such as 1"

    moved = named.rename(project / "moved")
    shutil.rmtree(folder)
    folder.mkdir()
    assert said(environment)[0].remedy == "export the SavedModel to model/1/"
    folder.rmdir()
    moved.rename(folder)
    remedy = "move its content to model/1/, or set version = 1 next to saved_model"
    assert said(environment)[0].remedy == remedy
    assert said(environment, VALID.replace('"model"', '"model"\nversion = 3')) == []


HANDLER = "def handler(data, context):\n    return data.read(), 'text/plain'\n"


def test_code_in_a_model_is_not_dropped_in_silence(environment: Environment, project: Path) -> None:
    unread = " inside the version, where the container never reads it"
    unpacked = ", which isn't packed: code has its own key"
    for place, given, effect, move, code in [
        ("model/code", "", unpacked, "", "model/code"),
        ("model", "", unpacked, "move it to model-code/, and ", "model-code"),
        ("model/1/code", 'code = "code"', unread, "move it to code/, and ", "code"),
    ]:
        (project / place).mkdir(exist_ok=True)
        handler = project / place / "inference.py"
        handler.write_text(HANDLER)
        text = VALID.replace('tensorflow = "2.20"', f'tensorflow = "2.20"\n{given}')
        problem = f"{place} contains inference.py{effect}"
        remedy = f'{move}write code = "{code}" next to saved_model'
        assert said(environment, text) == [(SOURCE, problem, "", remedy)]
        handler.unlink()


def test_code_needs_inference_py_in_its_folder(environment: Environment, project: Path) -> None:
    (project / "code" / "inference.py").unlink()
    text = VALID.replace('tensorflow = "2.20"', 'code = "code"')
    remedy = "add inference.py, or transforms.py with hooks, or remove `code`"
    refusal = ("models.ranker.code", "code: has no inference.py", "", remedy)
    assert said(environment, text) == [refusal]

    (project / "model" / "code").mkdir()
    (project / "model" / "code" / "inference.py").write_text(HANDLER)
    text = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\ncode = "model/code"')
    assert said(environment, text) == []


def test_a_model_without_the_signature_that_requests_ask_for_is_a_warning(
    environment: Environment, project: Path
) -> None:
    graph = project / "model" / "1" / "saved_model.pb"
    graph.write_bytes(graph.read_bytes().replace(b"serving_default", b"serving_special"))
    problem = (
        "version 1 has no signature serving_default, which requests without a signature name use; it "
        "has serving_special"
    )
    remedy = 'export with signatures={"serving_default": …}, or accept it'
    assert said(environment) == [(SOURCE, problem, "", remedy)]


HASH = "0123456789abcdef" * 4
PINNED = VALID.replace(
    'saved_model = "model"',
    f'artifact = {{ uri = "s3://models/run-17/model.tar.gz", sha256 = "{HASH.upper()}" }}',
)


def test_an_artifact_with_its_hash_replaces_a_saved_model(environment: Environment) -> None:
    loaded = environment(PINNED)
    assert check(loaded) == []
    assert loaded.environment.models["ranker"].artifact.sha256 == HASH
    (found,) = said(environment, PINNED.replace(HASH.upper(), "abc"))
    assert found.key == "models.ranker.artifact.sha256"
    assert found.problem == "'abc' does not have the required format"
    # A key that will be written again, in any folder and case.
    (found,) = check(environment(PINNED.replace("run-17", "a/Current/b")))
    assert (found.rule, found.severity) == ("artifact-moving-key", Severity.WARNING)
    text = VALID.replace('saved_model = "model"\n', "")
    assert said(environment, text)[0].problem == "neither saved_model nor artifact is given"


ALSO = VALID.replace('tensorflow = "2.20"', 'tensorflow = "2.20"\nalso_serves = ["scorer"]')
SCORER = '[models.scorer]\nsaved_model = "model"\n'
MULTI = VALID.replace('saved_model = "model"', 'multi_model = ["one", "two"]')
MEMBERS = '[models.one]\nsaved_model = "model"\n[models.two]\nsaved_model = "model"\n'


def test_a_model_that_cannot_go_into_the_archive_says_why(environment: Environment) -> None:
    for text in [ALSO + SCORER, MULTI + MEMBERS]:
        assert said(environment, text) == []

    (unknown,) = said(environment, ALSO + SCORER.replace("scorer", "scorers"))
    unknown_model = ("there is no model 'scorer'", "did you mean scorers?")
    assert (unknown.problem, unknown.remedy) == unknown_model

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
    for name, value in [("code", '"code"'), ("version", "1"), ("compression", '"none"')]:
        text = MULTI.replace("tensorflow", f"{name} = {value}\ntensorflow") + MEMBERS
        assert [one.key for one in said(environment, text)] == [f"models.ranker.{name}"]


WARMED = VALID.replace("tensorflow", 'warm_up = ["golden/request-rows.json"]\ntensorflow')


def test_a_request_that_cannot_warm_up_is_named(environment: Environment, project: Path) -> None:
    name, extra = "golden/request-rows.json", project / "model" / "1" / "assets.extra"
    golden = project / name
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
    problem = f"{name}: the request gives other; the signature expects feat_ids, feat_vals"
    key, remedy = "models.ranker.warm_up", "correct the request"
    assert said(environment, WARMED) == [(key, problem, "", remedy)]
    golden.write_text("{")
    assert said(environment, WARMED)[0].problem.startswith(f"{name}: is not JSON: ")
    golden.unlink()
    problem = f"{name}: cannot be read: No such file or directory"
    remedy = "check the golden request's path"
    assert said(environment, WARMED) == [(key, problem, "", remedy)]
