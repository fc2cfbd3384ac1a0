"""Writes the record of a deployment when the CDK CLI publishes it, and prints the file's path.

    python infra/recording.py REQUEST

Synth knows neither who deploys nor when; the publishing process does. REQUEST is the JSON that
`command` wrote at synth. The file is run by its path, because the CLI may run in any folder.
"""

import getpass
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # This folder's modules are not for import by their bare names; the packages beside it are.
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from model_packaging.beside import suggest_write_fix, write_atomically
from model_packaging.refusal import build_install_command as build_install_command

# Prefix of the records in the assets bucket, and the stack's output that names it.
FOLDER = "deployments"
OUTPUT = "DeploymentRecords"
# A deployment must not wait long for the caller's name in its record.
TIMEOUT_SECONDS = 5


def build_command(record: Mapping[str, Any], *, file: Path, root: Path) -> list[str]:
    """Return the command that completes this record. Only the CDK CLI runs it, when it publishes.

    `root` is the project, whose Git revision is recorded.
    """
    request = {"record": record, "file": str(file), "root": str(root)}
    return [sys.executable, str(Path(__file__).resolve()), json.dumps(request, sort_keys=True)]


def complete_record(record: Mapping[str, Any], root: Path) -> dict[str, Any]:
    """Return the record with time, caller, and revision, or the reason for a missing caller."""
    return {
        **record,
        "published": datetime.now(UTC).isoformat(timespec="seconds"),
        "caller": _find_caller(),
        "revision": _find_revision(root),
    }


def _find_caller() -> dict[str, str | None]:
    """Return the caller of the shell's credentials; `cdk deploy --profile` may use others."""
    caller: dict[str, str | None] = {"user": None, "arn": None}
    try:
        caller["user"] = getpass.getuser()
    except (OSError, KeyError):
        pass  # a container without a name for its user
    try:
        import boto3
        from botocore.config import Config

        config = Config(
            connect_timeout=TIMEOUT_SECONDS,
            read_timeout=TIMEOUT_SECONDS,
            retries={"total_max_attempts": 1},
        )
        region = boto3.session.Session().region_name or "us-east-1"
        sts = boto3.client("sts", config=config, region_name=region)
        caller["arn"] = str(sts.get_caller_identity()["Arn"])
    except Exception as wrong:  # a deployment never fails for its record
        caller["problem"] = f"{type(wrong).__name__}: {wrong}"
    return caller


def _find_revision(root: Path) -> str | None:
    """Return the Git revision, with -dirty if files were changed. Return None outside of Git."""
    try:
        ran = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip() or None


def write_record(request: Mapping[str, Any]) -> Path:
    """Write the record whole, or not at all, and return its file. Raises OSError."""
    file = Path(request["file"])
    text = json.dumps(
        complete_record(request["record"], Path(request["root"])), indent=2, sort_keys=True
    )
    write_atomically(file, text.encode())
    return file


def run(request: Mapping[str, Any]) -> None:
    """Print the file's path; exit with a message, which the CDK CLI shows, if it cannot be written."""
    try:
        print(write_record(request))
    except OSError as wrong:
        folder = Path(request["file"]).parent
        problem = f"cannot write the deployment's record: {wrong.strerror or wrong}"
        sys.exit(
            f"{request['file']}: {problem}; {suggest_write_fix(wrong, folder)}, then deploy again"
        )


if __name__ == "__main__":
    os.umask(0o077)
    run(json.loads(sys.argv[1]))
