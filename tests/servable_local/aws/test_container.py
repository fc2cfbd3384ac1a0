"""A container is started, healed, and closed; its output is in its log group, read, queried, and counted."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws.clock import TICK_SECONDS, ManualClock
from servable_local.aws.moto_patches.log_patterns import compile_pattern
from servable_local.aws.sagemaker.container import (
    Container,
    ContainerLogs,
    VariantStartError,
    launch_local_container,
)
from servable_local.container import launch
from tests.servable_local.aws.boto_members import until
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.deployed_templates import serving
from tests.servable_local.aws.local_account import Account

GROUP = "/aws/sagemaker/Endpoints/ranker"


def deploy(account: Account, text: str) -> None:
    template = serving(account.put_archive(b"a"), variables={"WRITES": text})
    assert account.deploy(template) == "CREATE_COMPLETE"


def messages(account: Account) -> list[str]:
    found = account.client("logs").filter_log_events(logGroupName=GROUP)
    return [event["message"] for event in found["events"]]


def test_lines_are_in_a_stream_of_their_instance(account: Account, clock: ManualClock) -> None:
    deploy(account, "first\n\nERROR second\nunfinished")
    clock.advance(seconds=TICK_SECONDS)
    logs = account.client("logs")
    (stream,) = logs.describe_log_streams(logGroupName=GROUP)["logStreams"]
    variant, instance = stream["logStreamName"].split("/")
    assert (variant, instance[:2], len(instance)) == ("primary", "i-", 19)
    assert messages(account) == ["first", "ERROR second"]
    clock.advance(seconds=TICK_SECONDS)
    assert messages(account) == ["first", "ERROR second"]
    (event,) = logs.filter_log_events(logGroupName=GROUP, filterPattern="ERROR")["events"]
    at = event["timestamp"] // 1000
    text = "fields @message | filter @message like /ERROR/"
    asked = {"startTime": at - 60, "endTime": at + 60, "queryString": text}
    query = logs.start_query(logGroupName=GROUP, **asked)
    results = logs.get_query_results(queryId=query["queryId"])["results"]
    found = [field["value"] for row in results for field in row if field["field"] == "@message"]
    assert "ERROR second" in found
    account.delete_endpoint("ranker")
    assert messages(account) == ["first", "ERROR second", "unfinished"]


def test_a_metric_filter_counts_lines(account: Account, clock: ManualClock) -> None:
    logs = account.client("logs")
    logs.create_log_group(logGroupName=GROUP)
    counted = {"Errors": ("ERROR", "1"), "Seconds": ("{ $.status >= 500 }", "$.seconds")}
    for name, (pattern, value) in counted.items():
        to = {"metricNamespace": "Own", "metricName": name, "metricValue": value}
        logs.put_metric_filter(
            logGroupName=GROUP, filterName=name, filterPattern=pattern, metricTransformations=[to]
        )
    lines = '{"status": 503, "seconds": 2.5}\n{"status": 200, "seconds": 9}\n'
    deploy(account, f"ERROR one\nfine\nERROR two\n{lines}last")
    clock.advance(minutes=1)
    found = {name: account.datapoints(f"Own:{name}", "Sum") for name in counted}
    sums = {name: sum(point["Sum"] for point in points) for name, points in found.items()}
    assert sums == {"Errors": 2, "Seconds": 2.5}
    logs.delete_log_group(logGroupName=GROUP)
    account.delete_endpoint("ranker")
    clock.advance(seconds=TICK_SECONDS)
    assert logs.describe_log_groups()["logGroups"] == []


def test_the_output_of_a_container_that_does_not_start_is_kept(account: Account) -> None:
    text = "it breaks, and its last line has no end"
    account.deploy(serving(account.put_archive(b"BROKEN"), variables={"WRITES": text}))
    assert messages(account) == [text]


def test_a_long_line_is_in_pieces(tmp_path: Path, launcher: Launcher) -> None:
    written: list[str] = []
    logs = ContainerLogs(tmp_path, lambda group, stream, lines, create: written.extend(lines))

    def start(log: Path) -> Any:
        log.write_bytes(b"x" * 600_000 + b"\nshort\n" + b"y" * 1_200_000)
        return launcher(None, {})

    process = logs.start_process(start, GROUP, "primary")
    logs.forward()
    logs.forward()
    process.close()
    assert [len(line) for line in written[:4]] == [262_144, 262_144, 75_712, 5]
    assert sum(map(len, written[4:])) == 1_200_000
    assert max(map(len, written)) == 262_144


PAGE = '127.0.0.1 Prod frank [10/Oct/2000:13:25:15 -0700] "GET /index.html HTTP/1.0" 404 1534'
EVENT = (
    '{"eventType": "UpdateTrail", "sourceIPAddress": "111.111.111.111", "arrayKey": ["value", '
    '"another value"], "objectList": [{"name": "a", "id": 1}, {"name": "b", "id": 2}], '
    '"SomeObject": null, "ThisFlag": true}'
)
NAMES = "ip, user, username, timestamp"


@pytest.mark.parametrize(
    ("pattern", "line", "wanted"),
    [
        ("", "anything", True),
        ("ERROR", "[ERROR 400] BAD REQUEST", True),
        ("ERROR", "[error 400] BAD REQUEST", False),
        ("ERROR REQUEST", "[ERROR 400] BAD REQUEST", True),
        ("ERROR REQUEST", "[ERROR 401] UNAUTHORIZED", False),
        ('"BAD REQUEST"', "[ERROR 400] BAD REQUEST", True),
        ('"BAD REQUEST"', "BAD luck, REQUEST lost", False),
        ("?ERROR ?WARN", "[WARN 1] disk", True),
        ('?"two words" ?WARN', "[ERROR 1] two words", True),
        ("?ERROR ?WARN", "[INFO] fine", False),
        ("ERROR -ARGUMENTS", "[ERROR 419] MISSING ARGUMENTS", False),
        ("ERROR -ARGUMENTS", "[ERROR 400] BAD REQUEST", True),
        (f"[{NAMES}, request, status_code, bytes]", PAGE, True),
        (f"[{NAMES}, request =*.html*, status_code = 4*, bytes]", PAGE, True),
        (f"[{NAMES}, request =*.php*, status_code = 4*, bytes]", PAGE, False),
        (f"[{NAMES}, request, status_code = 404 || status_code = 410, bytes]", PAGE, True),
        (f"[{NAMES}, request, status_code != 404 && status_code != 410, bytes]", PAGE, False),
        (f"[{NAMES}, request, status_code, bytes > 1000]", PAGE, True),
        (f"[{NAMES}, request, status_code, bytes > 2000]", PAGE, False),
        ("[..., request =*.html*, status_code = 4*, bytes]", PAGE, True),
        ("[..., status_code = 4*]", PAGE, False),
        (f"[{NAMES}, request, status_code, bytes, more]", PAGE, False),
        ("[w1=ERROR, w2]", "ERROR 09/25/2014 something went wrong", True),
        ("[w1=ERROR, w2]", "INFO 09/25/2014 something went well", False),
        ('{ $.eventType = "UpdateTrail" }', EVENT, True),
        ('{$.eventType="Update*"}', EVENT, True),
        ('{ $.eventType != "UpdateTrail" }', EVENT, False),
        ("{ $.sourceIPAddress != 123.123.* }", EVENT, True),
        ('{ $.arrayKey[0] = "value" }', EVENT, True),
        ('{ $.arrayKey[*] = "another value" }', EVENT, True),
        ('{ $.arrayKey[0] = "another value" }', EVENT, False),
        ("{ $.objectList[1].id = 2 }", EVENT, True),
        ("{ $.SomeObject IS NULL }", EVENT, True),
        ("{ $.SomeOtherObject IS NULL }", EVENT, False),
        ("{ $.SomeOtherObject NOT EXISTS }", EVENT, True),
        ("{ $.ThisFlag IS TRUE }", EVENT, True),
        ("{ $.ThisFlag IS FALSE }", EVENT, False),
        ("{ $.objectList[0].id >= 1e0 && $.objectList[0].id < 2 }", EVENT, True),
        ('{ ($.a = 1 || $.ThisFlag IS TRUE) && $.eventType = "x" }', EVENT, False),
        ("{ $.a = 1 || $.ThisFlag IS TRUE && $.eventType = Up* }", EVENT, True),
        ("{ $.a = 1 }", "a = 1", False),
    ],
)
def test_a_pattern_matches_what_the_page_says(pattern: str, line: str, wanted: bool) -> None:
    assert compile_pattern(pattern)(line) is wanted


WRONG = ("{ $.latency }", "{ $.a = 1", "{ $.a < x }", "{ a = 1 }", "%[a-z]%", "{ $.a = %x% }")


@pytest.mark.parametrize("pattern", [*WRONG, "[a, b ~ 2]"])
def test_what_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="not|isn't|aren't"):
        compile_pattern(pattern)


class Process:
    """A container's process that can be told to have ended."""

    pid = 2**22 + 1  # no child of ours: it has ended

    def __init__(self, **more: Any) -> None:
        self.url = f"http://127.0.0.1/{id(self)}"
        self.closed = False
        vars(self).update(more)

    def close(self) -> None:
        self.closed = True


def replaced(container: Container) -> None:
    """Heals it, and waits for the replacement."""
    container.restart_if_ended()
    until(lambda: not container._healing)


def test_a_failed_restart_is_printed_and_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    processes: list[Process] = []
    fails = [False, True, False]

    def launch() -> Process:
        if fails.pop(0):
            raise RuntimeError("no room")
        processes.append(Process())
        return processes[-1]

    container = Container(launch)
    replaced(container)
    failed = container.url == processes[0].url
    replaced(container)
    assert (failed, container.url, processes[0].closed) == (True, processes[1].url, True)
    assert "a container could not be restarted: no room" in capsys.readouterr().err


def test_a_container_closed_while_it_is_replaced_leaves_no_process() -> None:
    processes: list[Process] = []

    def launch() -> Process:
        processes.append(Process())
        if len(processes) == 2:
            container.close()
        return processes[-1]

    container = Container(launch)
    replaced(container)
    until(lambda: [process.closed for process in processes] == [True, True])
    container.restart_if_ended()
    assert len(processes) == 2


def test_a_container_is_started_again_only_when_it_was_killed() -> None:
    running = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    left = list(running)
    container = Container(lambda: Process(pid=left.pop().pid))
    try:
        before = container.pid
        replaced(container)
        assert (container.pid, before) == (before, running[1].pid)
        os.kill(running[1].pid, signal.SIGKILL)
        os.waitid(os.P_PID, running[1].pid, os.WEXITED | os.WNOWAIT)
        replaced(container)
        assert container.pid == running[0].pid
        running[0].kill()
        running[0].wait()
        container.close()
        replaced(container)
        assert (container.pid, left) == (running[0].pid, [])
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_a_container_is_launched_and_has_what_its_process_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fails(*given: Any, **more: Any) -> Any:
        raise launch.LaunchError("no ping")

    monkeypatch.setattr(launch, "launch", fails)
    with pytest.raises(VariantStartError, match="^no ping$"):
        launch_local_container(None, {})

    monkeypatch.setattr(launch, "launch", lambda *given, **more: (given, more))
    given: Any = launch_local_container(tmp_path, {"A": "1"}, ready_timeout_seconds=5, log=tmp_path)
    assert given == ((tmp_path, {"A": "1"}), {"ready_timeout_seconds": 5, "log": tmp_path})
    monkeypatch.setitem(sys.modules, "servable_local.container.launch", None)
    with pytest.raises(VariantStartError, match=r"pip install 'servable-local\[run\]'"):
        launch_local_container(None, {})

    faults = object()
    assert Container(lambda: Process(faults=faults)).faults is faults
    container = Container(lambda: Process(pid=None))
    assert (container.pid, container.folder) == (None, None)
    with pytest.raises(ValueError, match="does not support fault injection"):
        container.faults  # noqa: B018
