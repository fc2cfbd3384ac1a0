"""`servable history`: what was deployed when, and a rollback that is proven before it is made."""

import hashlib
import json
import time
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra import recording
from infra.packing import compute_packed_key
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded, ValidFile, load
from infra.parameters.placement import list_placements
from infra.recording import OUTPUT
from model_packaging.refusal import PackagingError
from servable.history import command, restoring
from servable.history.deployments import Deployment, list_deployments
from servable.history.restoring import build_restored_file, replace_file
from servable.project import account as operations_account
from tests.batches import build_batch_example
from tests.conftest import VALID, valid
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long

STACK = "prod-endpoint"
TEXT = VALID.replace("eu-west-1", "us-east-1")
THEN = {"tfs_processes": 1}
ARCHIVE = b"what was packed then"


class Past:
    """A stack's pointer and its records, without the rest of the stack."""

    def __init__(self, account: Account, project: Path) -> None:
        self.account, self.project = account, project
        self.file = project / "environments" / "prod.toml"
        self.file.write_text(TEXT.replace("111111111111", account.number))
        self.asked = operations_account.Account(
            region="us-east-1", number=account.number, aws=account.aws
        )

    def loaded(self) -> ValidFile:
        (found,) = load(self.project, self.project / "environments")
        return valid(found)

    def record(
        self,
        archive: bytes = ARCHIVE,
        name: str | None = None,
        container: Mapping[str, Any] = THEN,
        **changes: Any,
    ) -> str:
        """Published, as the asset's command completes it; returns the fingerprint.

        `name`: of the archive, without .tar.gz; left out, one that no sources pack to. `container`: the
        settings that were derived; empty: those that are derived now.
        """
        environment = self.loaded().environment
        settings = environment.model_dump(mode="json", exclude_unset=True)
        settings["variants"]["primary"] |= changes
        name = name or hashlib.sha256(archive).hexdigest()
        if not container:
            (placed,) = list_placements(environment)
            container = placed.settings.model_dump(mode="json", exclude_none=True)
        said = {
            "stack": STACK,
            "settings": settings,
            "overrides": {},
            "variants": [
                {
                    "variant": "primary",
                    "model": "ranker",
                    "archive": self.account.put_archive(archive, f"{name}.tar.gz"),
                    "image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:x",
                    "tensorflow": "2.20",
                    "model_gib": 0.001,
                    "container": container,
                }
            ],
        }
        fingerprint = hashlib.sha256(json.dumps(said).encode()).hexdigest()
        done = recording.complete_record({**said, "fingerprint": fingerprint}, self.project)
        key = f"deployments/{STACK}.{fingerprint}.json"
        self.account.put_archive(json.dumps(done).encode(), key)
        return fingerprint

    def deploy(self, fingerprint: str) -> None:
        template = {
            "Resources": {
                "Live": {
                    "Type": "AWS::SSM::Parameter",
                    "Properties": {"Type": "String", "Value": fingerprint},
                }
            },
            "Outputs": {
                OUTPUT: {"Value": f"s3://archives-{self.account.number}/deployments/{STACK}"}
            },
        }
        self.account.deploy(template, name=STACK)

    def found(self) -> list[Deployment]:
        return list_deployments(self.asked, STACK)

    def remove(self, archive: bytes) -> None:
        name = f"{hashlib.sha256(archive).hexdigest()}.tar.gz"
        bucket = f"archives-{self.account.number}"
        self.account.client("s3").delete_object(Bucket=bucket, Key=name)


@pytest.fixture
def past(account: Account, project: Path) -> Past:
    """A, then B, which is live."""
    made = Past(account, project)
    first, second = made.record(), made.record(b"B", min_instances=2)
    for one in (first, second):
        made.deploy(one)
    return made


def test_deployments_are_listed_newest_first_with_what_they_changed(past: Past) -> None:
    assert [(one.number, one.live) for one in past.found()] == [(2, True), (1, False)]
    assert past.found()[0].changes[0] == "variants.primary.min_instances: left out -> 2"

    record = past.found()[0].record
    assert record is not None
    assert {"user", "arn"} <= set(record["caller"])
    assert record["published"].endswith("+00:00")


def test_a_record_with_the_old_name_of_environment_is_read(past: Past) -> None:
    variables = {"TABLE": "users"}
    for one in (past.record(b"C", variables=variables), past.record(b"D", environment=variables)):
        past.deploy(one)
    newest, before, *_ = past.found()
    assert [change for change in newest.changes if "TABLE" in change] == []
    text = build_restored_file(past.loaded(), before, past.asked).text
    assert tomllib.loads(text)["variants"]["primary"]["environment"] == variables


def test_going_back_to_the_same_settings_is_a_deployment_too(past: Past) -> None:
    past.deploy(past.found()[1].fingerprint)
    newest = past.found()[0]
    assert (newest.number, newest.fingerprint) == (3, past.found()[2].fingerprint)


def test_a_record_that_never_came_through_has_no_number(past: Past) -> None:
    past.record(b"C", min_instances=3)
    assert past.found()[-1].number is None


def test_a_batch_alone_is_restored_from_its_archive_with_what_was_chosen(past: Past) -> None:
    alone = TEXT[: TEXT.index("[variants")].replace("111111111111", past.account.number)
    past.file.write_text(f"{build_batch_example()}\n{alone}")
    (newest, *_) = past.found()
    assert newest.record is not None
    (container,) = newest.record["variants"]
    batch = {**container, "batch": "nightly", "job": {"strategy": "multi_record", "payload_mb": 1}}
    batch["container"] = {"tfs_processes": 3}
    del batch["variant"]
    settings = past.loaded().environment.model_dump(mode="json", exclude_unset=True)
    record = {**newest.record, "settings": settings, "variants": [], "batches": [batch]}
    back = build_restored_file(past.loaded(), replace(newest, record=record), past.asked)
    tables = tomllib.loads(back.text)
    assert tables["models"]["ranker"]["artifact"]["uri"] == container["archive"]
    nightly = tables["batch"]["nightly"]
    assert (nightly["strategy"], nightly["container"]) == ("multi_record", {"tfs_processes": 3})


@pytest.fixture
def destroyed(past: Past) -> Past:
    """After `cdk destroy`: the records are where the bootstrap keeps them, the pointer is gone."""
    bucket = f"cdk-hnb659fds-assets-{past.account.number}-us-east-1"
    s3 = past.account.client("s3")
    s3.create_bucket(Bucket=bucket)
    for one in past.found():
        key = f"deployments/{STACK}.{one.fingerprint}.json"
        record = {**(one.record or {}), "published": f"2026-11-0{one.number}T12:00:00+00:00"}
        s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(record).encode())
    past.account.delete(STACK)
    return past


def test_after_a_destroy_records_have_numbers_and_can_be_restored(destroyed: Past) -> None:
    assert [(one.number, one.time[:10]) for one in destroyed.found()] == [
        (2, "2026-11-02"),
        (1, "2026-11-01"),
    ]
    assert [one.state_known for one in destroyed.found()] == [False, False]
    found = build_restored_file(
        destroyed.loaded(), command._find_deployment(destroyed.found(), "1"), destroyed.asked
    )
    assert "min_instances" not in tomllib.loads(found.text)["variants"]["primary"]


def test_what_a_deleted_stack_had_is_not_known_beside_what_the_new_one_has(destroyed: Past) -> None:
    time.sleep(1.1)  # records and stacks have whole seconds
    fingerprint = destroyed.record(b"C", min_instances=3)
    destroyed.deploy(fingerprint)
    never = destroyed.record(b"D", min_instances=4)
    states = {one.fingerprint: (one.number, one.state_known) for one in destroyed.found()}
    assert (states.pop(fingerprint), states.pop(never)) == ((1, True), (None, True))
    assert list(states.values()) == [(None, False)] * 2


def test_the_way_back_passes_the_checks_and_keeps_the_file_that_it_replaces(past: Past) -> None:
    found = build_restored_file(past.loaded(), past.found()[1], past.asked)
    assert [str(finding) for finding in found.findings if finding.severity is Severity.ERROR] == []
    folder = past.project / "environments"
    before = {file: file.read_bytes() for file in folder.glob("*.toml")}
    file, kept = replace_file(past.loaded(), folder, found)
    assert kept.read_bytes() == before[file] != file.read_bytes()
    replace_file(past.loaded(), past.project / "environments", found)
    environment = past.loaded().environment
    artifact = environment.models["ranker"].artifact
    assert artifact is not None
    assert artifact.sha256 == hashlib.sha256(ARCHIVE).hexdigest()


def test_live_and_previous_name_a_deployment(past: Past) -> None:
    listed = past.found()
    assert [command._find_deployment(listed, name).number for name in ("live", "previous")] == [
        2,
        1,
    ]
    again = past.found()[1].fingerprint
    past.deploy(again)  # a third deployment, which is the first one again
    assert [
        command._find_deployment(past.found(), name).number for name in ("live", "previous")
    ] == [3, 2]


def test_the_way_back_has_the_values_that_the_file_contained(past: Past) -> None:
    environment = past.loaded().environment
    packed = compute_packed_key(environment, "ranker", past.project)
    stated = tomllib.loads(past.file.read_text())
    past.deploy(past.record(name=packed, container={}))
    found = build_restored_file(past.loaded(), past.found()[0], past.asked)
    assert tomllib.loads(found.text) == stated
    assert found.notes == ["ranker: the current sources produce the same archive"]


def test_the_way_back_writes_what_would_be_derived_otherwise_now(past: Past) -> None:
    packed = compute_packed_key(past.loaded().environment, "ranker", past.project)
    past.deploy(past.record(name=packed, container={"gunicorn_workers": 7}))
    found = build_restored_file(past.loaded(), past.found()[0], past.asked)
    assert tomllib.loads(found.text)["variants"]["primary"]["container"] == {"gunicorn_workers": 7}
    assert [note for note in found.notes if "gunicorn_workers = 7 was derived at that time" in note]


def test_a_removed_archive_is_refused_beforehand_with_the_reason(past: Past) -> None:
    past.remove(ARCHIVE)
    with pytest.raises(PackagingError, match="the archive no longer exists; check out"):
        build_restored_file(past.loaded(), past.found()[1], past.asked)

    bucket = f"archives-{past.account.number}"
    s3 = past.account.client("s3")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    past.account.put_archive(ARCHIVE, f"{hashlib.sha256(ARCHIVE).hexdigest()}.tar.gz")
    past.remove(ARCHIVE)
    with pytest.raises(PackagingError, match="the bucket still has its version"):
        build_restored_file(past.loaded(), past.found()[1], past.asked)


def test_a_removed_archive_that_the_sources_here_still_pack_to_is_no_hindrance(past: Past) -> None:
    environment = past.loaded().environment
    packed = compute_packed_key(environment, "ranker", past.project)
    past.deploy(past.record(name=packed))
    bucket = f"archives-{past.account.number}"
    past.account.client("s3").delete_object(Bucket=bucket, Key=f"{packed}.tar.gz")
    found = build_restored_file(past.loaded(), past.found()[0], past.asked)
    # The CLI publishes what is not there: the next deploy packs it again.
    assert found.notes == ["ranker: the current sources produce the same archive"]


def test_sources_of_many_models_may_pack_to_the_same_prefix(past: Past) -> None:
    many = TEXT.replace("111111111111", past.account.number).replace(
        '[variants.primary]\nmodel = "ranker"',
        '[models.cities]\nmulti_model = ["ranker"]\ntensorflow = "2.20"\nserver_memory_gib = 0.5\n'
        '[variants.primary]\nmodel = "cities"',
    )
    past.file.write_text(many)
    environment = past.loaded().environment
    prefix = compute_packed_key(environment, "cities", past.project)
    past.deploy(past.record(name=f"{prefix}/ranker", model="cities"))
    deployment = past.found()[0]
    assert deployment.record is not None
    told = deployment.record["variants"][0]
    told["model"], told["archive"] = "cities", f"s3://archives-{past.account.number}/{prefix}/"
    found = build_restored_file(past.loaded(), deployment, past.asked)
    assert found.notes[0] == "cities: the current sources produce the same archive"


def test_acceptances_of_nothing_are_dropped(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = '[acknowledge]\na = "for a good reason"\nb = "for another reason"\n'
    past.file.write_text(past.file.read_text() + accepted)
    past.deploy(past.record())

    def first_only(loaded: Loaded) -> list[Finding]:
        assert isinstance(loaded, ValidFile)
        return [
            Finding(
                rule="acknowledge-nothing",
                severity=Severity.ERROR,
                file=loaded.file,
                key=f"acknowledge.{rule}",
                problem="accepts a finding that does not exist",
                remedy="remove it",
            )
            for rule in list(loaded.environment.acknowledge)[:1]
        ]

    monkeypatch.setattr(restoring, "check", first_only)
    found = build_restored_file(past.loaded(), past.found()[0], past.asked)
    assert (tomllib.loads(found.text)["acknowledge"], found.findings) == ({}, [])


def test_an_image_that_nobody_knows_any_more_is_refused(past: Past) -> None:
    deployment = past.found()[1]
    assert deployment.record is not None
    deployment.record["variants"][0]["tensorflow"] = "1.0"
    with pytest.raises(PackagingError, match="the image of TensorFlow 1.0 is no longer known"):
        build_restored_file(past.loaded(), deployment, past.asked)


class Foreign(operations_account.Account):
    """Credentials of somebody else."""

    def fetch_identity(self) -> dict[str, Any]:
        return {"Account": "999999999999"}


def test_credentials_of_another_account_are_refused(past: Past) -> None:
    number, aws = past.account.number, past.account.aws
    with pytest.raises(
        PackagingError, match=f"to account 999999999999, but the environment is {number}"
    ):
        list_deployments(Foreign(region="us-east-1", number=number, aws=aws), STACK)
