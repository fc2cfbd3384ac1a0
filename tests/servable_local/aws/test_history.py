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
from infra.parameters.loading import ValidFile, load
from infra.parameters.placement import list_placements
from infra.recording import OUTPUT
from model_packaging.refusal import PackagingError
from servable.history import command, restoring
from servable.history.deployments import Deployment, list_deployments
from servable.history.restoring import RestoredFile, build_restored_file, replace_file
from tests.batches import build_batch_example
from tests.conftest import VALID, valid
from tests.servable_local.aws.deployed_templates import resource
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
        self.asked = account.open()

    def loaded(self) -> ValidFile:
        (found,) = load(self.project, self.project / "environments")
        return valid(found)

    def record(self, archive: bytes = ARCHIVE, name: str | None = None,
               container: Mapping[str, Any] = THEN, **changes: Any) -> str:  # fmt: skip
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
        variant = {
            "variant": "primary", "model": "ranker", "tensorflow": "2.20", "model_gib": 0.001,
            "archive": self.account.put_archive(archive, f"{name}.tar.gz"), "container": container,
            "image": "763104351884.dkr.ecr.us-east-1.amazonaws.com/tensorflow-inference:x",
        }  # fmt: skip
        said = {"stack": STACK, "settings": settings, "overrides": {}, "variants": [variant]}
        fingerprint = hashlib.sha256(json.dumps(said).encode()).hexdigest()
        done = recording.complete_record({**said, "fingerprint": fingerprint}, self.project)
        key = f"deployments/{STACK}.{fingerprint}.json"
        self.account.put_archive(json.dumps(done).encode(), key)
        return fingerprint

    def deploy(self, fingerprint: str) -> None:
        live = resource("SSM::Parameter", Type="String", Value=fingerprint)
        output = {"Value": f"s3://archives-{self.account.number}/deployments/{STACK}"}
        template = {"Resources": {"Live": live}, "Outputs": {OUTPUT: output}}
        self.account.deploy(template, name=STACK)

    def found(self) -> list[Deployment]:
        return list_deployments(self.asked, STACK)

    def remove(self, name: str) -> None:
        bucket = f"archives-{self.account.number}"
        self.account.client("s3").delete_object(Bucket=bucket, Key=f"{name}.tar.gz")

    def restored(self, deployment: Deployment) -> RestoredFile:
        return build_restored_file(self.loaded(), deployment, self.asked)

    def destroy(self) -> None:
        """`cdk destroy`: the records are where the bootstrap keeps them, the pointer is gone."""
        bucket = f"cdk-hnb659fds-assets-{self.account.number}-us-east-1"
        s3 = self.account.client("s3")
        s3.create_bucket(Bucket=bucket)
        for one in self.found():
            key = f"deployments/{STACK}.{one.fingerprint}.json"
            record = {**(one.record or {}), "published": f"2026-11-0{one.number}T12:00:00+00:00"}
            s3.put_object(Bucket=bucket, Key=key, Body=json.dumps(record).encode())
        self.account.delete(STACK)


@pytest.fixture
def past(account: Account, project: Path) -> Past:
    """A, then B, which is live."""
    made = Past(account, project)
    for fingerprint in (made.record(), made.record(b"B", min_instances=2)):
        made.deploy(fingerprint)
    return made


def test_deployments_are_listed_newest_first_with_what_they_changed(past: Past) -> None:
    assert [(one.number, one.live) for one in past.found()] == [(2, True), (1, False)]
    assert past.found()[0].changes[0] == "variants.primary.min_instances: left out -> 2"

    record = past.found()[0].record
    assert record is not None
    assert {"user", "arn"} <= set(record["caller"])
    assert record["published"].endswith("+00:00")
    past.record(b"C", min_instances=3)
    assert past.found()[-1].number is None


def test_a_record_with_the_old_name_of_environment_is_read(past: Past) -> None:
    variables = {"TABLE": "users"}
    for one in (past.record(b"C", variables=variables), past.record(b"D", environment=variables)):
        past.deploy(one)
    newest, before, *_ = past.found()
    assert [change for change in newest.changes if "TABLE" in change] == []
    text = past.restored(before).text
    assert tomllib.loads(text)["variants"]["primary"]["environment"] == variables


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
    back = past.restored(replace(newest, record=record))
    tables = tomllib.loads(back.text)
    assert tables["models"]["ranker"]["artifact"]["uri"] == container["archive"]
    nightly = tables["batch"]["nightly"]
    assert (nightly["strategy"], nightly["container"]) == ("multi_record", {"tfs_processes": 3})


def test_after_a_destroy_records_can_be_restored_and_what_the_stack_had_is_not_known(
    past: Past,
) -> None:
    past.destroy()
    listed = past.found()
    found = [(one.number, one.time[:10], one.state_known) for one in listed]
    assert found == [(2, "2026-11-02", False), (1, "2026-11-01", False)]
    found = past.restored(command._find_deployment(listed, "1"))
    assert "min_instances" not in tomllib.loads(found.text)["variants"]["primary"]

    time.sleep(1.1)  # records and stacks have whole seconds
    fingerprint = past.record(b"C", min_instances=3)
    past.deploy(fingerprint)
    never = past.record(b"D", min_instances=4)
    states = {one.fingerprint: (one.number, one.state_known) for one in past.found()}
    assert (states.pop(fingerprint), states.pop(never)) == ((1, True), (None, True))
    assert list(states.values()) == [(None, False)] * 2


def test_the_way_back_passes_the_checks_and_keeps_the_file_that_it_replaces(past: Past) -> None:
    found = past.restored(past.found()[1])
    assert [str(finding) for finding in found.findings if finding.severity is Severity.ERROR] == []
    before = past.file.read_bytes()
    file, kept = replace_file(past.loaded(), past.file.parent, found)
    assert (file, kept.read_bytes()) == (past.file, before)
    assert file.read_bytes() != before
    artifact = past.loaded().environment.models["ranker"].artifact
    assert artifact is not None
    assert artifact.sha256 == hashlib.sha256(ARCHIVE).hexdigest()


def test_live_and_previous_name_a_deployment_also_where_it_is_one_again(past: Past) -> None:
    def numbers() -> list[int | None]:
        listed = past.found()
        return [command._find_deployment(listed, name).number for name in ("live", "previous")]

    assert numbers() == [2, 1]
    past.deploy(past.found()[1].fingerprint)  # the same settings
    newest, _, first = past.found()
    assert (newest.number, newest.fingerprint) == (3, first.fingerprint)
    assert numbers() == [3, 2]


def test_the_way_back_has_the_values_that_the_file_contained_or_that_were_derived(
    past: Past,
) -> None:
    packed = compute_packed_key(past.loaded().environment, "ranker", past.project)
    stated = tomllib.loads(past.file.read_text())
    past.deploy(past.record(name=packed, container={}, scaling=None))
    same = "ranker: the current sources produce the same archive"
    found = past.restored(past.found()[0])
    assert (tomllib.loads(found.text), found.notes) == (stated, [same])

    past.deploy(past.record(name=packed, container={"gunicorn_workers": 7}))
    found = past.restored(past.found()[0])
    assert tomllib.loads(found.text)["variants"]["primary"]["container"] == {"gunicorn_workers": 7}
    assert [note for note in found.notes if "gunicorn_workers = 7 was derived at that time" in note]

    past.deploy(past.record(name=packed))
    past.remove(packed)
    # The CLI publishes what is not there: the next deploy packs it again.
    assert past.restored(past.found()[0]).notes == [same]

    # With an unknown key nothing can be derived.
    first = past.found()[-1]
    record = json.loads(json.dumps(first.record))
    record["variants"][0]["tensorflow"] = "2.19"
    record["settings"]["variants"]["primary"] |= {"container": THEN, "gone": 1}
    found = past.restored(replace(first, record=record))
    assert tomllib.loads(found.text)["models"]["ranker"]["tensorflow"] == "2.19"
    assert not [note for note in found.notes if "tfs_processes" in note]


def test_an_image_or_an_archive_that_is_gone_is_refused_with_the_reason(past: Past) -> None:
    first = past.found()[1]
    record = json.loads(json.dumps(first.record))
    record["variants"][0]["tensorflow"] = "1.0"
    with pytest.raises(PackagingError, match="the image of TensorFlow 1.0 is no longer known"):
        past.restored(replace(first, record=record))

    name = hashlib.sha256(ARCHIVE).hexdigest()
    past.remove(name)
    with pytest.raises(PackagingError, match="the archive no longer exists; check out"):
        past.restored(first)
    bucket, kept = f"archives-{past.account.number}", {"Status": "Enabled"}
    past.account.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration=kept)
    past.account.put_archive(ARCHIVE, f"{name}.tar.gz")
    past.remove(name)
    with pytest.raises(PackagingError, match="the bucket still has its version"):
        past.restored(first)


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
    found = past.restored(deployment)
    assert found.notes[0] == "cities: the current sources produce the same archive"


def test_acceptances_of_nothing_are_dropped(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    accepted = '[acknowledge]\na = "for a good reason"\nb = "for another reason"\n'
    past.file.write_text(past.file.read_text() + accepted)
    past.deploy(past.record())

    def first_only(loaded: ValidFile) -> list[Finding]:
        said = {"problem": "accepts a finding that does not exist", "remedy": "remove it"}
        of: dict[str, Any] = {"rule": "acknowledge-nothing", "file": loaded.file, **said}
        keys = [f"acknowledge.{name}" for name in loaded.environment.acknowledge]
        return [Finding(severity=Severity.ERROR, key=key, **of) for key in keys[:1]]

    monkeypatch.setattr(restoring, "check", first_only)
    found = past.restored(past.found()[0])
    assert (tomllib.loads(found.text)["acknowledge"], found.findings) == ({}, [])


def test_credentials_of_another_account_are_refused(
    past: Past, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past.asked, "fetch_identity", lambda: {"Account": "999999999999"})
    said = f"to account 999999999999, but the environment is {past.account.number}"
    with pytest.raises(PackagingError, match=said):
        past.found()
