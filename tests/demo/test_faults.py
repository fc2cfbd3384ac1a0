"""Faults of a deployed model under load: what callers see, and which alarm goes into ALARM.

Minutes of the alarms last 2 s; latencies are real.
"""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from servable_local.aws import LocalAws, running
from tests.checkouts import GOLDEN, PATH, ROOT, bootstrapped, succeed_in
from tests.demo.conftest import P99_LATENCY_MS

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
ENDPOINT = "ranker-local"
BODY = (GOLDEN / "request-rows.json").read_bytes()
SECONDS_PER_MINUTE = 2.0
LONGEST_SECONDS = 15 * SECONDS_PER_MINUTE
CALLERS, GAP_SECONDS = 4, 0.2  # of a caller, between an answer and its next request
SLOW_MS = P99_LATENCY_MS + 350
# {name: (arguments of inject_fault, metric of the alarm)}; a supervisor starts a killed model server again.
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "slowed": ({"latency_ms": SLOW_MS}, "ModelLatency"),
    "killed": ({"kill": "model server"}, "Invocation5XXErrors"),
    "answering 503": ({"status": 503}, "Invocation5XXErrors"),
}


@dataclass
class Outcome:
    """States that the alarm of a fault reached, and what callers saw until `stop`."""

    aws: LocalAws
    states: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    errors: set[tuple[str, int]] = field(default_factory=set)
    slowest_ms: float = 0.0

    def call(self) -> None:
        runtime = self.aws.client("sagemaker-runtime")
        while not self.stop.wait(GAP_SECONDS):
            began = time.perf_counter()
            try:
                answer = runtime.invoke_endpoint(
                    EndpointName=ENDPOINT, ContentType="application/json", Body=BODY
                )
                answer["Body"].read()
            except ClientError as error:
                code = error.response["Error"]["Code"]
                self.errors.add((code, error.response.get("OriginalStatusCode", 0)))
            else:
                self.slowest_ms = max(self.slowest_ms, (time.perf_counter() - began) * 1000)


def reaches(aws: LocalAws, alarm: str, state: str, **fault: Any) -> bool:
    """Whether the alarm comes into the state; a fault that is given is injected until then."""
    cloudwatch, deadline = aws.client("cloudwatch"), time.monotonic() + LONGEST_SECONDS
    while time.monotonic() < deadline:
        if fault:
            aws.inject_fault(ENDPOINT, **fault)
        (described,) = cloudwatch.describe_alarms(AlarmNames=[alarm])["MetricAlarms"]
        if described["StateValue"] == state:
            return True
        time.sleep(0.2)
    return False


@pytest.fixture(scope="module")
def aws(assembly: Path) -> Iterator[LocalAws]:
    """examples/ranker deployed to a local AWS."""
    with running(seconds_per_minute=SECONDS_PER_MINUTE) as aws:
        bootstrapped(aws)
        deploy = ("cdk", "deploy", "local/*", "--require-approval", "never", "--app", assembly)
        environment = aws.environment_over({**os.environ, "PATH": PATH})
        succeed_in(ROOT, *deploy, environment=environment)
        yield aws


@pytest.fixture(scope="module")
def outcomes(aws: LocalAws) -> dict[str, Outcome]:
    """Outcome of each fault, one after the other."""
    described = aws.client("cloudwatch").describe_alarms()["MetricAlarms"]
    alarms = {alarm.get("MetricName"): alarm["AlarmName"] for alarm in described}
    outcomes = {}
    for name, (fault, metric) in FAULTS.items():
        outcome = outcomes[name] = Outcome(aws)
        with ThreadPoolExecutor(CALLERS) as pool:
            for _ in range(CALLERS):
                pool.submit(outcome.call)
            try:
                for state, arguments in (("OK", {}), ("ALARM", fault), ("OK", {"end": True})):
                    if reaches(aws, alarms[metric], state, **arguments):
                        outcome.states.append(state)
            finally:
                outcome.stop.set()
    return outcomes


@pytest.mark.parametrize("fault", FAULTS)
def test_an_alarm_sees_a_fault_and_recovers(fault: str, outcomes: dict[str, Outcome]) -> None:
    assert outcomes[fault].states == ["OK", "ALARM", "OK"]


def test_callers_read_a_status_or_wait_without_errors(outcomes: dict[str, Outcome]) -> None:
    assert ("ModelError", 503) in outcomes["answering 503"].errors
    assert outcomes["slowed"].slowest_ms > SLOW_MS
    assert outcomes["slowed"].errors == set()
