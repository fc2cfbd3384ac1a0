"""docs/local-aws.md names the versions of clients that the locks install, and with which tests are run."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_versions_of_clients_on_the_page_are_those_of_the_locks() -> None:
    page = (ROOT / "docs/local-aws.md").read_text(encoding="utf-8")
    section = page.partition("### Clients that were run against it")[2].partition("### ")[0]
    names = "aws-cdk|boto3|awscli|sagemaker|@aws-sdk/client-sagemaker-runtime"
    shown = dict(re.findall(rf"(?<![\w/-])({names}) ([0-9.]+[0-9])", section))
    lock = (ROOT / "requirements/dev.txt").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^(boto3|awscli|sagemaker)==(\S+)", lock, re.MULTILINE))
    package = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))
    assert shown == locked | package["devDependencies"]
