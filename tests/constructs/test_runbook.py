"""docs/runbook.md has a section for every alarm, and none for an alarm that is not there."""

import re
from typing import Any

import botocore.session
import pytest

from infra.constructs.endpoint.endpoint_logs import QUESTIONS
from infra.constructs.monitoring.first_steps import FIRST_STEPS, LONGEST_DESCRIPTION
from infra.parameters.loading import load
from servable.plan.synthesis import synthesise_endpoint
from tests.batches import build_batch_example
from tests.checkouts import ROOT
from tests.conftest import RANKER, VALID, valid
from tests.servable_local.aws.everything_on import EVERYTHING, QUEUED, watching

RUNBOOK = (RANKER.parents[2] / "docs" / "runbook.md").read_text()
SECTIONS = set(re.findall(r"^## (.+)$", RUNBOOK, re.MULTILINE))


@pytest.fixture(scope="module")
def alarms(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    found = [watching(tmp_path_factory.mktemp("watching"), text) for text in (EVERYTHING, QUEUED)]
    (canary,) = [
        loaded for loaded in load(ROOT, ROOT / "examples" / "updates") if loaded.name == "canary"
    ]
    found.append(synthesise_endpoint(valid(canary)))  # with golden requests
    found.append(
        watching(
            tmp_path_factory.mktemp("batch"),
            f"{build_batch_example(schedule='rate(1 day)')}\n{VALID}",
        )
    )
    resources = [resource for each in found for resource in each["Resources"].values()]
    return [resource["Properties"] for resource in resources if resource["Type"].endswith("Alarm")]


def test_every_alarm_has_its_section_and_first_step(alarms: list[dict[str, Any]]) -> None:
    named = {alarm["AlarmDescription"].rpartition("#")[2] for alarm in alarms}
    assert named == SECTIONS
    assert [one for one in alarms if "First: " not in one["AlarmDescription"]] == []
    assert set(FIRST_STEPS) == SECTIONS
    of_endpoint = {one for one in SECTIONS if not re.match("batch-|golden|objective|rollback", one)}
    page = (ROOT / "docs/observing.md").read_text()
    assert of_endpoint <= set(re.findall(r"`([\w-]+)`", page))

    # With the longest names of an endpoint and a variant, and the longest address.
    spare = 63 - len("everything") + 3 * 63 + 200
    length = max(len(one["AlarmDescription"]) for one in alarms)
    model = botocore.session.get_session().get_service_model("cloudwatch")
    described = model.operation_model("PutMetricAlarm").input_shape.members["AlarmDescription"]
    assert length + spare <= described.metadata["max"] == LONGEST_DESCRIPTION


def test_every_saved_question_is_there_and_used() -> None:
    quoted = set(re.findall(r'"([a-z][^"\n]+)"', " ".join(RUNBOOK.split())))
    others = {"during an update, by configuration"}
    assert quoted - others <= set(QUESTIONS)

    assert {
        question for question in QUESTIONS if question not in " ".join(RUNBOOK.split())
    } == set()
