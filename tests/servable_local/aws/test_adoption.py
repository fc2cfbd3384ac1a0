"""Endpoints that others made, read, written as an environment file, and compared with its template."""

import contextlib
import io
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.parameters.finding import Severity
from infra.parameters.loading import ValidFile, load
from infra.preflight.check import check
from servable.init.adoption.expressed import Expressed, convert_live_endpoint
from servable.init.adoption.live_snapshot import LiveSnapshot, read_live_snapshot
from servable.init.adoption.live_template import (
    COMPARED,
    build_live_template,
    explain_harmless_change,
)
from servable.init.from_live import fetch_models, render_environment
from servable.plan.synthesis import synthesise_endpoint
from servable.plan.template_changes import TemplateChange, list_changes
from servable_local.aws.local_aws import LocalAws
from tests.checkouts import ROOT
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.live_endpoints import LIVE, NAME, LiveEndpoint
from tests.servable_local.aws.local_account import Account

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Adopted:
    """One live endpoint, the file that was written of it, and the template of that file."""

    snapshot: LiveSnapshot
    expressed: Expressed
    loaded: ValidFile
    errors: list[str]
    template: dict[str, Any]

    @property
    def changes(self) -> list[TemplateChange]:
        """What the file's stack would change of what is live."""
        return [
            change
            for change in list_changes(
                build_live_template(self.snapshot, self.template), self.template
            )
            if change.resource in COMPARED
        ]


@pytest.fixture(scope="module")
def adopted(
    embedded: LocalAws, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Adopted]:
    """Each endpoint is made once; tests ask several things of it."""
    return {}


@pytest.fixture(params=LIVE)
def case(
    request: pytest.FixtureRequest,
    adopted: dict[str, Adopted],
    embedded: LocalAws,
    launcher: Launcher,
    tmp_path_factory: pytest.TempPathFactory,
) -> Adopted:
    name = request.param
    if name not in adopted:
        live = LiveEndpoint(Account(embedded, launcher))
        LIVE[name](live)
        live.make()
        adopted[name] = adopt(live.account, tmp_path_factory.mktemp("adopted"))
    return adopted[name]


def adopt(account: Account, root: Path) -> Adopted:
    reads: Any = Reading(account)
    snapshot = read_live_snapshot(reads, "endpoint", NAME)
    result = fetch_models(convert_live_endpoint(snapshot), reads, root)
    (root / "environments").mkdir()
    (root / "cdk.json").write_text("{}")
    text = render_environment(result, source=f"endpoint {NAME}")
    (root / "environments" / "dev.toml").write_text(text)
    (loaded,) = load(root, root / "environments")
    assert isinstance(loaded, ValidFile), loaded.findings
    found = [str(each) for each in check(loaded) if each.severity is Severity.ERROR]
    with contextlib.redirect_stderr(io.StringIO()):
        template = synthesise_endpoint(loaded)
    return Adopted(snapshot, result, loaded, found, template)


class Reading:
    """The `Account` of servable, as far as reading goes, over an account of the local AWS."""

    def __init__(self, account: Account) -> None:
        self.number, self.region, self.client = account.number, "us-east-1", account.client

    def iterate_items(self, service: str, operation: str, key: str, **parameters: Any) -> Any:
        for page in self.client(service).get_paginator(operation).paginate(**parameters):
            yield from page.get(key, [])


def test_the_written_file_passes_the_checks_and_lists_what_it_changes(case: Adopted) -> None:
    assert case.errors == []

    listed = " ".join(row.where for row in case.expressed.not_carried)
    silent = [
        change
        for change in case.changes
        if explain_harmless_change(change.what, change.before, change.after, case.snapshot) is None
        and not _is_listed(change, listed)
    ]
    assert silent == []


def _is_listed(change: TemplateChange, listed: str) -> bool:
    """Whether the field, or the table that it is in, is a row of the list."""
    if change.resource.startswith("AWS::ApplicationAutoScaling"):
        return "scaling of" in listed
    outer = ("ProductionVariants", "PrimaryContainer", "Environment", "DataCaptureConfig")
    parts = [part.partition("[")[0] for part in change.what.split(".")]
    if change.what.startswith("PrimaryContainer.ModelData"):
        return "s3://" in listed
    return any(part in listed for part in parts if part not in outer)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("tags of the model and the configuration", "endpoint configuration: tag cost"),
        (
            "tags of the model and the configuration",
            "model ranker-2026-11-20-10-15-00: tag model-owner",
        ),
        ("a composite alarm", "alarm page"),
        ("capture that is off", "DataCaptureConfig"),
    ],
)
def test_what_no_template_shows_is_listed(
    embedded: LocalAws, launcher: Launcher, tmp_path: Path, name: str, row: str
) -> None:
    live = LiveEndpoint(Account(embedded, launcher))
    LIVE[name](live)
    live.make()
    snapshot = read_live_snapshot(Reading(live.account), "endpoint", NAME)  # type: ignore[arg-type]
    assert row in [each.where for each in convert_live_endpoint(snapshot).not_carried]


def test_a_secret_is_left_out_and_named(adopted_secret: Adopted) -> None:
    text = render_environment(adopted_secret.expressed, source="endpoint ranker")
    assert [secret in text for secret in ("hunter2", "xyzzy")] == [False, False]
    assert [name in text for name in ("DB_PASSWORD", "API_TOKEN")] == [True, True]


def test_the_file_of_an_endpoint_by_the_sdk_is_the_pages(
    embedded: LocalAws, launcher: Launcher, tmp_path: Path
) -> None:
    live = LiveEndpoint(Account(embedded, launcher))
    LIVE["by SDK v3"](live)
    tables = adopt(live.account, tmp_path).expressed.tables
    page = (ROOT / "docs" / "adopting.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```toml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    bucket = live.uri.removeprefix("s3://").partition("/")[0]
    text = block.replace("123456789012", live.account.number).replace("team-models", bucket)
    tables.pop("metrics", None)  # by the day of its creation
    for key in ("sha256", "size_bytes", "size_gib"):
        del tables["models"]["model"]["artifact"][key]
    assert tables == tomllib.loads(text)


@pytest.fixture(scope="module")
def adopted_secret(
    embedded: LocalAws, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> Adopted:
    live = LiveEndpoint(Account(embedded, launcher))
    LIVE["own variables and a secret"](live)
    live.make()
    return adopt(live.account, tmp_path_factory.mktemp("secret"))
