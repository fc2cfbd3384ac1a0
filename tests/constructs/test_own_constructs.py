"""Every public construct, minimal and full, for one account and for any, under three judges."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cloudformation_validate as validate
import pytest

from scripts.check_templates import lint_templates, validate_template
from servable import constructs as own
from tests.api_calls import calls, problems
from tests.checkouts import PATH, ROOT
from tests.constructs import own_constructs

pytestmark = [pytest.mark.long, pytest.mark.timeout(400)]
# Zones that the CDK CLI looks up when it deploys: a synth without it writes stand-ins.
OF_THE_CLI = "dummy1"
# Values, types, and results of other constructs; tests/constructs/test_own_settings.py uses the settings.
NOT_CALLED = {
    "AsyncInferenceLocations", "CoreDumps", "Destination", "EndpointAlarm", "EndpointAlarms",
    "EndpointBase", "EndpointConfig", "EndpointDashboard", "EndpointVariant", "Environment",
    "EnvironmentFileError", "InstancePool", "MetricProps", "ModelTable", "Serverless", "WatchedVariant",
}  # fmt: skip


@pytest.fixture(scope="module")
def assembly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("constructs") / "out"
    ran = subprocess.run(
        [sys.executable, own_constructs.__file__, str(out), "AwsSolutions"],
        cwd=out.parent,
        env={**os.environ, "PATH": PATH, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.is_dir(), ran.stderr
    return out


def test_every_public_name_is_used_in_the_stacks() -> None:
    text = Path(own_constructs.__file__).read_text()
    assert [name for name in {*own.__all__} - NOT_CALLED if f"own.{name}" not in text] == []


def test_neither_annotations_nor_any_linter_find_anything_in_four_stacks(assembly: Path) -> None:
    templates = sorted(assembly.glob("*.template.json"))
    names = [file.name.split(".")[0] for file in templates]
    assert names == ["full-any", "full-one", "minimal-any", "minimal-one"]
    assert [
        f"{path}: {entry['data']}"
        for file in assembly.glob("*.metadata.json")
        for path, entries in json.loads(file.read_text()).items()
        for entry in entries
        if entry["type"] in ("aws:cdk:error", "aws:cdk:warning")
    ] == []
    report = json.loads((assembly / "validation-report.json").read_text())
    # Only a pack that found something has a report.
    assert [plugin["violations"] for plugin in report["pluginReports"]] == []
    assert [line for line in lint_templates(templates) if OF_THE_CLI not in line] == []
    engine = validate.RegoEngine()
    assert [said for file in templates for said in validate_template(file, engine)] == []


def test_botocore_takes_the_calls_and_any_region_finds_the_registry(assembly: Path) -> None:
    for name in ("full-one", "minimal-one"):
        template = json.loads((assembly / f"{name}.template.json").read_text())
        assert [said for call in calls(template) for said in problems(call)] == []
    template = json.loads((assembly / "minimal-any.template.json").read_text())
    (mapping,) = template["Mappings"].values()
    assert mapping["eu-west-1"] == {"account": "763104351884", "domain": "amazonaws.com"}
