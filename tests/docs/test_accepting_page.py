"""docs/accepting.md, typed against a local AWS whose minute lasts two seconds."""

import os
import re
import shlex
import textwrap
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError

from servable_local.aws import down, up
from tests.checkouts import GOLDEN, PATH, ROOT, checkout, run_in
from tests.servable_local.aws.inventory import inventory

PAGE = (ROOT / "docs/accepting.md").read_text(encoding="utf-8")
ACCOUNT, REGION = "111111111111", "eu-west-1"  # of the page
SECONDS_PER_MINUTE = 2
# A busy computer sends late, which ends a load test with 1; its requests arrive all the same.
ALLOWED_CODES = {"servable doctor": {1}, "servable load": {0, 1, 3}}
FAULTY = "code=faulty"
# Ten minutes of the page are 20 s here; users are measured for seconds.
QUICKER = {
    "--least-seconds 600 --step-seconds 600": "--least-seconds 40 --step-seconds 40",
    "--users 1,2": "--users 1,2 --least-seconds 2 --step-seconds 2",
}


def read_lines() -> list[str]:
    """Return the commands of the ten steps, in their order."""
    return [line for lines, _ in _read_steps() for line in lines]


def _read_steps() -> list[tuple[list[str], list[str]]]:
    """Return (commands, lines of the output that the page shows) of each block of commands."""
    steps: list[tuple[list[str], list[str]]] = []
    for kind, block in re.findall(r"^ +```(sh|text)\n(.*?)^ +```$", PAGE, re.DOTALL | re.MULTILINE):
        lines = textwrap.dedent(block).splitlines()
        if kind == "sh":
            steps.append((lines, []))
        else:
            steps[-1][1].extend(lines)
    return steps


@contextmanager
def _golden_requests() -> Iterator[None]:
    """Send golden requests, as the function does on AWS; the local AWS runs no functions."""
    done, runtime = threading.Event(), boto3.client("sagemaker-runtime", region_name=REGION)
    call = {"EndpointName": "ranker-prove", "ContentType": "application/json"}
    body = (GOLDEN / "request-rows.json").read_bytes()

    def send() -> None:
        while not done.wait(0.05):
            with suppress(ClientError):  # the faulty instance's 500
                runtime.invoke_endpoint(**call, Body=body)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        done.set()
        sender.join()


def _type(line: str, project: Path, environment: Mapping[str, str]) -> tuple[int, str]:
    """Return the exit code and output of a command. boto3 stands for the AWS CLI."""
    for slow, quick in QUICKER.items():
        line = line.replace(slow, quick)
    words = shlex.split(line)
    if words[0] == "aws":
        client = boto3.client(words[1], region_name=REGION)
        return 0, str(client.describe_scaling_activities(ServiceNamespace="sagemaker"))
    ran = run_in(project, *words, environment=environment, timeout_seconds=400)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_ten_steps_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = checkout(tmp_path / "project")
    shown_files = re.findall(r"this to `(\S+)`.*?```\w+\n(.*?)```", PAGE, re.DOTALL)
    environments = ["environments/prove.toml", "environments/sleeper.toml"]
    assert [name for name, _ in shown_files] == [*environments, "faulty/inference.py"]
    for name, text in shown_files:
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")
    aws = up(folder=project / ".servable", seconds_per_minute=SECONDS_PER_MINUTE)
    try:
        environment = aws.environment_over(
            {**os.environ, "PATH": PATH, "PYTHONPATH": str(project)}, account=ACCOUNT, region=REGION
        )
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        before: list[tuple[str, str]] = []
        for lines, shown in _read_steps():
            output = ""
            for line in lines:
                # With --rates a busy computer sends too few for the scaling to see.
                faulty, asked = FAULTY in line, FAULTY in line or "--rates" in line
                with _golden_requests() if asked else nullcontext():
                    code, said = _type(line, project, environment)
                usual = ALLOWED_CODES.get(" ".join(line.split()[:2]), {0})
                allowed = {1} if faulty else usual
                assert code in allowed, f"{line}: {code}\n{said}"
                output += said
                if line.startswith("cdk bootstrap"):
                    before = inventory(aws, account=ACCOUNT, region=REGION)
            for text in shown:
                pattern = ".*".join(map(re.escape, text.split("…")))
                assert re.search(f"^{pattern}", output, re.MULTILINE), f"{lines}: {output}"
        left = inventory(aws, account=ACCOUNT, region=REGION)
    finally:
        down(folder=project / ".servable")
    assert before
    assert left == before
