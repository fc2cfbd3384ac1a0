"""`make audit`: vulnerabilities known of the releases that requirements*.txt and package-lock.json hold.

uv asks the OSV database (https://osv.dev) about the Python packages; npm asks its registry about the
CDK CLI. Both send names and versions, and nothing else. Run by itself, `python -m scripts.audit` ends
with 0 where both know nothing, with 1 where one knows a vulnerability, and with 3 where none is known but
one could not be asked. A binary inside a package (Node, OpenSSL in a wheel) has no entry of its own there.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomlkit
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
VULNERABLE = 1
NOT_ASKED = 3
# Advisories that do not concern this project, by their id, each with the reason.
ACCEPTED: dict[str, str] = {}
_MOST_SECONDS = 300
# uv wants a source for each release; a folder is one that it asks nothing of.
_SOURCE = {"registry": "wheels"}


class NotAskedError(Exception):
    """`str()` says which database gave no answer, and why."""


@dataclass(frozen=True)
class Vulnerability:
    """One advisory about one locked release."""

    package: str
    version: str
    ids: frozenset[str]
    """The advisory's names in every database: GHSA-…, CVE-…, PYSEC-…"""
    summary: str
    remedy: str

    def __str__(self) -> str:
        names = ", ".join(sorted(self.ids))
        return f"{self.package} {self.version}: {names}: {self.summary}; {self.remedy}"


def pinned(files: Sequence[Path]) -> list[tuple[str, str]]:
    """(name, version) of every release in the locks, for every platform, each once."""
    found = set()
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line[:1].isalnum():
                requirement = Requirement(line.partition("#")[0].strip(" \\"))
                (pin,) = requirement.specifier
                found.add((requirement.name, Version(pin.version)))
    return [(name, str(version)) for name, version in sorted(found)]


def python_vulnerabilities(
    releases: Sequence[tuple[str, str]], *, service: str | None = None
) -> Iterator[Vulnerability]:
    """Vulnerabilities that OSV knows. `service`: another address than its own. Raises `NotAskedError`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_project(folder, releases)
        command = [sys.executable, "-m", "uv", "audit", "--frozen", "--no-config"]
        command += ["--output-format", "json", "--preview-features", "audit-command,json-output"]
        command += ["--project", str(folder)]
        answer = _run(command + (["--service-url", service] if service else []), folder)
    if answer.returncode not in (0, 1):
        raise NotAskedError(f"OSV: {_last_words(answer)}")
    report = _json(answer)
    audited = report["summary"]["audited_packages"]
    if audited != len(releases):
        raise NotAskedError(f"OSV: uv asked about {audited} of {len(releases)} Python packages")
    for vulnerability in report["vulnerabilities"]:
        fixed = ", ".join(vulnerability["fix_versions"])
        yield Vulnerability(
            package=vulnerability["dependency"]["name"],
            version=vulnerability["dependency"]["version"],
            ids=frozenset([vulnerability["id"], *vulnerability["aliases"]]),
            summary=vulnerability["summary"] or vulnerability["link"],
            remedy=f"fixed in {fixed}" if fixed else "no release fixes it yet",
        )


def node_vulnerabilities(root: Path, *, registry: str | None = None) -> Iterator[Vulnerability]:
    """Vulnerabilities that the npm registry knows of package-lock.json. Raises `NotAskedError`."""
    npm = Path(sys.executable).with_name("npm")
    command = [str(npm), "audit", "--json", "--package-lock-only", "--fetch-retries=1"]
    answer = _run(command + ([f"--registry={registry}"] if registry else []), root)
    report = _json(answer)
    if "vulnerabilities" not in report:
        raise NotAskedError(f"the npm registry: {report.get('message', 'no answer')}")
    packages = json.loads((root / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name, found in report["vulnerabilities"].items():
        version = packages.get(f"node_modules/{name}", {}).get("version", "")
        for one in found["via"]:
            if isinstance(one, dict):  # a name is a package whose own advisory is listed
                advisory = str(one["url"]).rpartition("/")[2]
                remedy = f"affected: {one['range']}; {one['url']}"
                yield Vulnerability(name, version, frozenset([advisory]), one["title"], remedy)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Known vulnerabilities of the locked packages.")
    parser.add_argument("--root", type=Path, default=ROOT, help="Folder of the locks.")
    parser.add_argument("--osv-url", help="Address of an OSV service (default: OSV's own).")
    parser.add_argument("--npm-registry", help="Address of npm's registry (default: its setting).")
    options = parser.parse_args(arguments)
    releases = pinned(sorted(options.root.glob("requirements*.txt")))
    python = python_vulnerabilities(releases, service=options.osv_url)
    audits = {
        f"{len(releases)} Python packages": python,
        "the CDK CLI": node_vulnerabilities(options.root, registry=options.npm_registry),
    }
    vulnerable = unanswered = 0
    for packages, vulnerabilities in audits.items():
        try:
            known = list(vulnerabilities)
        except NotAskedError as problem:
            unanswered += 1
            print(f"not audited: {packages}: could not ask {problem}", file=sys.stderr)
            continue
        print(f"audited: {packages}: {len(known) or 'no'} known vulnerabilities")
        for one in known:
            reason = next((ACCEPTED[name] for name in one.ids if name in ACCEPTED), None)
            vulnerable += reason is None
            print(f"accepted: {one}: {reason}" if reason else f"vulnerable: {one}")
    return VULNERABLE if vulnerable else NOT_ASKED * bool(unanswered)


def _write_project(folder: Path, releases: Sequence[tuple[str, str]]) -> None:
    """The locks in the form that `uv audit` reads."""
    own = {"name": "locked", "version": "0"}
    pins = [{"name": name, "version": version, "source": _SOURCE} for name, version in releases]
    packages = [{**own, "source": {"virtual": "."}, "dependencies": pins}, *pins]
    project = {"project": {**own, "requires-python": ">=3.11"}}
    (folder / "pyproject.toml").write_text(tomlkit.dumps(project), encoding="utf-8")
    lock = {"version": 1, "requires-python": ">=3.11", "package": packages}
    (folder / "uv.lock").write_text(tomlkit.dumps(lock), encoding="utf-8")


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    options: dict[str, Any] = {"capture_output": True, "text": True, "timeout": _MOST_SECONDS}
    try:
        return subprocess.run(command, cwd=folder, env={**os.environ, "NO_COLOR": "1"}, **options)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotAskedError(str(problem)) from None


def _json(answer: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    try:
        report = json.loads(answer.stdout)
    except ValueError:
        raise NotAskedError(f"{answer.args[0]}: {_last_words(answer)}") from None
    return report if isinstance(report, dict) else {}


def _last_words(answer: subprocess.CompletedProcess[str]) -> str:
    return " ".join(answer.stderr.split()) or f"exit code {answer.returncode}"


if __name__ == "__main__":
    sys.exit(main())
