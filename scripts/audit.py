"""Ask OSV and npm's registry about known vulnerabilities of the locked packages: `make audit`.

`uv audit` checks requirements.txt and requirements/*.txt, `npm audit` checks package-lock.json.
Exit codes: 0 if neither reports a vulnerability, 1 if either reports one, 3 if none is known but
a database did not respond.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tomlkit
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
VULNERABLE, NOT_ASKED = 1, 3
# Advisories of OSV that do not concern this project, by ID, each with the reason.
ACCEPTED: dict[str, str] = {}


def read_pins(root: Path) -> list[tuple[str, str]]:
    """Return (name, version) of every release in the locks, for every platform, each once."""
    files = [root / "requirements.txt", *root.glob("requirements/*.txt")]
    lines = [line for file in files for line in file.open()]
    pins = [Requirement(line.split(" \\")[0].strip()) for line in lines if line[:1].isalnum()]
    return sorted({(pin.name, str(pin.specifier).removeprefix("==")) for pin in pins})


def audit_python(root: Path, service: str) -> int | None:
    """Print and count the vulnerabilities that OSV knows; None if it didn't check each release."""
    pins = read_pins(root)
    packages: list[dict[str, Any]] = [
        {"name": name, "version": version, "source": {"registry": "wheels"}}
        for name, version in pins
    ]
    own = {"name": "locked", "version": "0"}
    lock = [{**own, "source": {"virtual": "."}, "dependencies": packages}, *packages]
    with tempfile.TemporaryDirectory() as name:
        project = {"project": {**own, "requires-python": ">=3.11"}}
        Path(name, "pyproject.toml").write_text(tomlkit.dumps(project), encoding="utf-8")
        uv_lock = {"version": 1, "requires-python": ">=3.11", "package": lock}
        Path(name, "uv.lock").write_text(tomlkit.dumps(uv_lock), encoding="utf-8")
        command = [sys.executable, "-m", "uv", "audit", "--frozen", "--no-config"]
        command += ["--project", name, f"--service-url={service}"]
        command += ["--output-format", "json", "--preview-features", "audit-command,json-output"]
        ignored = [option for advisory in ACCEPTED for option in ("--ignore", advisory)]
        report = run_audit([*command, *ignored], Path(name))
    if report.get("summary", {}).get("audited_packages") != len(pins):
        return None
    for each in report["vulnerabilities"]:
        names = ", ".join(sorted({each["id"], *each["aliases"]}))
        fixed = ", ".join(each["fix_versions"]) or "no release yet"
        package = f"{each['dependency']['name']} {each['dependency']['version']}"
        said = each["summary"] or each["link"]
        print(f"vulnerable: {package}: {names}: {said}; fixed in {fixed}")
    return len(report["vulnerabilities"])


def audit_node(root: Path, registry: list[str]) -> int | None:
    """Print and count the vulnerable packages that npm's registry knows; None if it's silent."""
    npm = str(Path(sys.executable).with_name("npm"))
    command = [npm, "audit", "--json", "--package-lock-only", "--fetch-retries=1", *registry]
    known = run_audit(command, root).get("vulnerabilities")
    for name, found in (known or {}).items():
        for each in found["via"]:
            where = f"{each['title']}; {each['url']}" if isinstance(each, dict) else f"by {each}"
            print(f"vulnerable: {name}: {where}")
    return None if known is None else len(known)


def run_audit(command: list[str], folder: Path) -> dict[str, Any]:
    """Run an audit, and return its report; empty if the report isn't a JSON object."""
    environment = {**os.environ, "NO_COLOR": "1"}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    try:
        report = json.loads(ran.stdout)
    except ValueError:
        print(" ".join(ran.stderr.split()), file=sys.stderr)
        return {}
    return report if isinstance(report, dict) else {}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="List known vulnerabilities of locked packages.")
    parser.add_argument("--root", type=Path, default=ROOT, help="Folder with the lock files.")
    parser.add_argument("--osv-url", default="https://api.osv.dev/", help="Address of OSV.")
    parser.add_argument(
        "--npm-registry", help="URL of npm's registry (default: npm's own setting)."
    )
    given = parser.parse_args(arguments)
    registry = [f"--registry={given.npm_registry}"] if given.npm_registry else []
    known = {
        "OSV": audit_python(given.root, given.osv_url),
        "the npm registry": audit_node(given.root, registry),
    }
    for database, count in known.items():
        if count is None:
            print(f"not audited: cannot reach {database}", file=sys.stderr)
        else:
            print(f"audited by {database}: {count or 'no'} known vulnerabilities")
    return VULNERABLE if any(known.values()) else NOT_ASKED * (None in known.values())


if __name__ == "__main__":
    sys.exit(main())
