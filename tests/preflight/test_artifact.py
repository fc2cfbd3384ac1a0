"""An archive that lies in S3 already."""

from infra.parameters.finding import Severity
from infra.preflight.check import check
from tests.conftest import VALID, Environment
from tests.findings import Message, messages

HASH = "a" * 64
ARTIFACT = f'artifact = {{ uri = "s3://models/run-17/model.tar.gz", sha256 = "{HASH}" }}'
PINNED = VALID.replace('saved_model = "model"', ARTIFACT)


def said(environment: Environment, text: str) -> list[Message]:
    return messages(check(environment(text)))


def test_an_artifact_with_its_hash_replaces_a_saved_model(environment: Environment) -> None:
    assert said(environment, PINNED) == []

    digest = "0123456789abcdef" * 4
    loaded = environment(PINNED.replace(HASH, digest.upper()))
    assert check(loaded) == []
    assert loaded.environment is not None
    artifact = loaded.environment.models["ranker"].artifact
    assert artifact is not None
    assert artifact.sha256 == digest

    (problem,) = said(environment, PINNED.replace(HASH, "abc"))
    assert problem[:2] == (
        "models.ranker.artifact.sha256",
        "'abc' does not have the required format",
    )


def test_a_model_has_one_source_and_code_beside_it_or_none(environment: Environment) -> None:
    assert said(environment, VALID.replace('saved_model = "model"\n', "")) == [
        (
            "models.ranker.saved_model",
            "neither saved_model nor artifact is given",
            "",
            "add saved_model with the model's folder",
        )
    ]
    text = VALID.replace('saved_model = "model"', f'saved_model = "model"\n{ARTIFACT}')
    assert said(environment, text) == [
        (
            "models.ranker.artifact",
            "saved_model and artifact exclude each other",
            "",
            "remove one",
        )
    ]
    text = PINNED.replace(ARTIFACT, f'{ARTIFACT}\ncode = "code"')
    assert said(environment, text) == [
        (
            "models.ranker.code",
            "code has no effect with an artifact, which is packed already",
            "",
            "pack it into the artifact as code/, or remove it",
        )
    ]


def test_a_key_that_will_be_written_again_is_a_warning(environment: Environment) -> None:
    for key, warned in [
        ("run-17", []),
        ("latest", [Severity.WARNING]),
        ("a/Current/b", [Severity.WARNING]),
    ]:
        found = check(environment(PINNED.replace("run-17", key)))
        assert [one.severity for one in found] == warned
