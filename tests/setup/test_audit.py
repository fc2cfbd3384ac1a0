"""The audit's three outcomes, by the real uv and npm, against a database of advisories on this computer."""

import gzip
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from scripts import audit
from tests.checkouts import ROOT, run_in
from tests.http_stub import HttpStub, Response

pytestmark = pytest.mark.long

NOBODY = "http://127.0.0.1:1"  # a port that nothing listens on
ADVISORY = {
    "id": "PYSEC-2025-1",
    "aliases": ["CVE-2025-1"],
    "modified": "2025-01-01T00:00:00Z",
    "summary": "a template leaves its sandbox",
    "affected": [
        {
            "package": {"ecosystem": "PyPI", "name": "jinja2"},
            "ranges": [
                {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.1"}]}
            ],
        }
    ],
}  # fmt: skip
NPM_ADVISORY = {
    "id": 1,
    "url": "https://github.com/advisories/GHSA-aaaa-bbbb-cccc",
    "title": "an asset is written outside its folder",
    "severity": "high",
    "vulnerable_versions": "<99.0.0",
    "cwe": [],
    "cvss": {"score": 0, "vectorString": None},
}


@dataclass
class Database:
    """OSV's and npm's questions answered: what is vulnerable, and who was asked about."""

    address: str = ""
    vulnerable: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, path: str, body: bytes) -> Any:
        if path == "/v1/querybatch":
            queries = json.loads(body)["queries"]
            names = [query["package"]["name"] for query in queries]
            self.asked += [(name, one["version"]) for name, one in zip(names, queries, strict=True)]
            known = [{"id": ADVISORY["id"], "modified": ADVISORY["modified"]}]
            return {
                "results": [{"vulns": known} if one in self.vulnerable else {} for one in names]
            }
        if path == f"/v1/vulns/{ADVISORY['id']}":
            return ADVISORY
        if path == "/-/npm/v1/security/advisories/bulk":
            asked = json.loads(body)
            return {name: [NPM_ADVISORY] for name in asked if name in self.vulnerable}
        if path == "/aws-cdk":
            return {"name": "aws-cdk", "versions": {"2.1148.1": {"version": "2.1148.1"}}}
        return None


@pytest.fixture
def database() -> Iterator[Database]:
    state = Database()

    def respond(handler: BaseHTTPRequestHandler, body: bytes) -> Response:
        zipped = handler.headers.get("content-encoding") == "gzip"
        found = state.answer(handler.path, gzip.decompress(body) if zipped else body)
        headers = {"content-type": "application/json"}
        return 404 if found is None else 200, headers, json.dumps(found).encode()

    with HttpStub(respond) as server:
        state.address = server.url
        yield state


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    for file in ("package.json", "package-lock.json"):
        shutil.copy(ROOT / file, tmp_path)
    (tmp_path / "requirements.txt").write_text(
        "jinja2==3.1.6 \\\n    --hash=sha256:00\n    # via a\n"
    )
    return tmp_path


Audit = Callable[..., int]


@pytest.fixture
def run(database: Database, locks: Path, monkeypatch: pytest.MonkeyPatch) -> Audit:
    """Run the audit; return its exit code. `silent`: the databases that cannot be asked."""
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")

    def run_audit(*silent: str) -> int:
        osv, npm = (NOBODY if one in silent else database.address for one in ("osv", "npm"))
        return audit.main(["--root", str(locks), "--osv-url", osv, "--npm-registry", npm])

    return run_audit


def test_with_nothing_known_or_all_accepted_the_audit_ends_with_0(
    database: Database, run: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run() == 0

    database.vulnerable = {"jinja2"}
    monkeypatch.setitem(audit.ACCEPTED, "CVE-2025-1", "no template of a stranger is rendered")
    assert run() == 0


def test_every_locked_release_is_asked_about(database: Database, locks: Path, run: Audit) -> None:
    shutil.copy(ROOT / "requirements.txt", locks)
    shutil.copytree(ROOT / "requirements", locks / "requirements")
    run()
    lines = [line for file in locks.rglob("*.txt") for line in file.read_text().splitlines()]
    pins = {line.split()[0] for line in lines if line[:1].isalnum()}
    assert {f"{name}=={version}" for name, version in database.asked} == pins


def test_what_is_vulnerable_ends_with_1_and_is_named(
    database: Database, run: Audit, capsys: pytest.CaptureFixture[str]
) -> None:
    database.vulnerable = {"jinja2"}
    assert run() == 1
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "vulnerable:" in one]
    said = "CVE-2025-1, PYSEC-2025-1: a template leaves its sandbox; fixed in 99.1"
    assert line.split(" ", 3)[3] == said
    # What is vulnerable counts more than what could not be asked.
    assert run("npm") == 1

    database.vulnerable = {"aws-cdk"}
    assert (run(), "GHSA-aaaa-bbbb-cccc" in capsys.readouterr().out) == (1, True)


@pytest.mark.parametrize("silent", [("osv",), ("npm",), ("osv", "npm")])
def test_a_database_that_cannot_be_asked_ends_with_3_and_is_named(
    run: Audit, capsys: pytest.CaptureFixture[str], silent: tuple[str, ...]
) -> None:
    assert run(*silent) == 3
    words = capsys.readouterr().err
    named = ("cannot reach OSV" in words, "cannot reach the npm registry" in words)
    assert named == ("osv" in silent, "npm" in silent)


def test_an_answer_that_is_no_report_is_not_taken_for_a_clean_one(
    database: Database, run: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy's page of greeting, as an intercepting network sends it."""
    known = database.answer

    def greeting(path: str, body: bytes) -> object:
        return {"hello": "please log in"} if path.startswith("/v1/") else known(path, body)

    monkeypatch.setattr(database, "answer", greeting)
    assert run() == 3


def test_the_audit_is_a_command_of_its_own(locks: Path) -> None:
    command = [sys.executable, "-m", "scripts.audit", "--root", str(locks)]
    ran = run_in(ROOT, *command, "--osv-url", "not an address", "--npm-registry", NOBODY)
    assert ran.returncode == audit.NOT_ASKED
