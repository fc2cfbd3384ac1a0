"""moto's EC2 is imported by who asks for it, and not by a bootstrap or by scaling."""

import subprocess
import sys

import pytest

from tests.checkouts import ROOT

pytestmark = pytest.mark.long

BEGINNING = """
import sys
from servable_local.aws.moto_patches.every_service import import_without_ec2
for module in ("moto.ssm.urls", "moto.applicationautoscaling.urls"):
    import_without_ec2(module)
"""


def printed(code: str) -> str:
    command = [sys.executable, "-c", BEGINNING + code]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return ran.stdout.strip()


def test_ec2_is_imported_for_who_asks_alone() -> None:
    assert printed("""
print("moto.ec2.models" in sys.modules, "moto.ec2" in sys.modules)
import moto.ssm.models as ssm
from moto.ec2 import ec2_backends
print(ssm.ec2_backends["1" * 12]["us-east-1"] is ec2_backends["1" * 12]["us-east-1"])
import moto.ec2 as ec2
import_without_ec2("moto.ssm.urls")
print(sys.modules["moto.ec2"] is ec2)
""").split() == ["False", "False", "True", "True"]


def test_a_server_that_starts_imports_no_service_that_nobody_asked_for() -> None:
    code = """
import sys, tempfile
from pathlib import Path
from servable_local.aws.server import Server
Server(folder=Path(tempfile.mkdtemp())).close()
names = "awslambda dynamodb ec2 ecr kms scheduler sns.models sqs stepfunctions sts"
print([name for name in names.split() if f"moto.{name}" in sys.modules])
"""
    assert printed(code) == "[]"
