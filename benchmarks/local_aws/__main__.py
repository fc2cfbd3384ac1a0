"""Local AWSes side by side: which of ten CDK apps each deploys. The others are taken from PATH."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks import workload
from benchmarks.frame import Log, Result, machine, main, rounds
from benchmarks.tables import spread, table
from servable_local.aws.lifecycle import end, status
from servable_local.aws.local_aws import ACCOUNT, REGION, LocalAws

STARTS, START_SECONDS, CALL_SECONDS = 3, 90.0, 300.0
# Each as its own page says, without Docker, in the foreground; MiniStack reads the port from a variable.
COMMANDS = {
    "servable-local": [sys.executable, "-m", "servable_local.aws", "--folder", "."],
    "moto": ["moto_server", "--port", "{port}"],
    "ministack": ["ministack"],
    "localemu": ["localemu", "start", "--port", "{port}"],
}
APPS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("apps.yaml").read_text())
VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
DEPLOY = "cdk deploy --app ../cdk.out --require-approval never --progress events"
INVOKE = "aws sagemaker-runtime invoke-endpoint --content-type application/json --body fileb://../body.json"


def measure(folder: Path, log: Log) -> Result:
    archive = folder / "model.tar.gz"
    workload.pack(archive, {"sum": workload.model(folder / "model")}, {})
    (folder / "body.json").write_text(json.dumps({"instances": [[2.0] * workload.COLUMNS]}))
    _synthesise(folder / "cdk.out", archive)
    installed = [name for name, words in COMMANDS.items() if shutil.which(words[0])]
    result: Result = {"machine": machine(), "measured": {}}
    starts = rounds({name: partial(_start, name, folder) for name in installed}, STARTS, log)
    for name in installed:
        with _running(name, folder) as (_, aws):
            used = {"version": _version(name), "starts": starts[name], **_used(aws)}
        result["measured"][name] = used
    return result


def _synthesise(folder: Path, archive: Path) -> None:
    from aws_cdk import App, CfnResource, Environment, Stack
    from aws_cdk.aws_s3_assets import Asset

    app, where = App(outdir=str(folder)), Environment(account=ACCOUNT, region=REGION)
    for name, of in APPS.items():
        stack = Stack(app, name, env=where)
        for logical_id, parts in of["resources"].items():
            properties = parts.get("Properties", {})
            resource = CfnResource(stack, logical_id, type=parts["Type"], properties=properties)
            if "PrimaryContainer" in properties:
                url = Asset(stack, "Archive", path=str(archive)).s3_object_url
                resource.add_property_override("PrimaryContainer.ModelDataUrl", url)
    app.synth()


def _start(name: str, folder: Path) -> dict[str, float]:
    with _running(name, folder) as (seconds, aws):
        return {"seconds": seconds, "memory_mb": psutil.Process(aws.pid).memory_info().rss / 1e6}


def _version(name: str) -> str:
    """Ask the Python in the first line of its script; the version of ours is this commit's."""
    first = Path(shutil.which(COMMANDS[name][0]) or "").read_bytes().partition(b"\n")[0]
    if not first.startswith(b"#!"):
        return ""
    command = [first[2:].decode().strip(), "-c", VERSION, name]
    return subprocess.check_output(command, text=True).strip()


@contextmanager
def _running(name: str, folder: Path) -> Iterator[tuple[float, LocalAws]]:
    """Yield the seconds until it answers, and where it runs. Raises RuntimeError where it does not start."""
    state = folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    (state / "client").mkdir(parents=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    words = [word.format(port=port) for word in COMMANDS[name]]
    environment, begun = os.environ | {"GATEWAY_PORT": port}, time.perf_counter()
    with (state / "log").open("wb") as log:
        process = subprocess.Popen(words, cwd=state, env=environment, stdout=log, stderr=log)
    url = f"http://localhost:{port}"  # moto finds no bucket by an address
    try:
        while time.perf_counter() < begun + START_SECONDS and process.poll() is None:
            aws = status(folder=state) or LocalAws(url, process.pid, "", state, "test")
            try:
                aws.client("sts").get_caller_identity()
            except Exception:  # not yet
                time.sleep(0.02)
            else:
                yield time.perf_counter() - begun, aws
                return
        raise RuntimeError(f"{name} does not answer; {(state / 'log').read_text()[-500:]}")
    finally:
        end(process)


def _used(aws: LocalAws) -> dict[str, Any]:
    def problem(command: str, contains: str = "") -> str:
        """Return the end of the output if the command fails, or its output lacks what it must contain."""
        ran = subprocess.run(
            command.split(), cwd=aws.folder, env=aws.environment_over(os.environ),
            timeout=CALL_SECONDS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        failed = ran.returncode or contains not in ran.stdout
        return ran.stdout.strip()[-400:] or "no output" if failed else ""

    bootstrap = problem(f"cdk bootstrap aws://{ACCOUNT}/{REGION}")
    refused = {app: bootstrap or problem(f"{DEPLOY} {app}") for app in APPS}
    missing = {app: problem(f"aws {of['look']}", of["contains"]) for app, of in APPS.items()}
    unanswered = problem(f"{INVOKE} --endpoint-name bench-endpoint answer.json")
    answer = unanswered or (aws.folder / "answer.json").read_text()
    return {"refused": refused, "missing": missing, "answer": answer[:400]}


def fields(result: Result) -> dict[str, Any]:
    rows = []
    for name in COMMANDS:
        if not (measured := result["measured"].get(name)):
            rows.append([name, "not installed", *[""] * 5])
            continue
        refused = [app for app, reason in measured["refused"].items() if reason]
        missing = measured["missing"]
        unmade = [app for app in missing if missing[app] and app not in refused]
        predicts = "yes" if f"{2.0 * workload.COLUMNS}" in measured["answer"] else "no"
        made = str(len(APPS) - len(refused) - len(unmade))
        deployed = [made, ", ".join(refused), ", ".join(unmade)]
        starts = [[start[key] for start in measured["starts"]] for key in ("seconds", "memory_mb")]
        rows.append([f"{name} {measured['version']}", *deployed, predicts, *map(spread, starts)])
    head = ("", "of ten", "refused", "accepted, not as asked", "predicts", "start, s", "memory, MB")
    apps = "; ".join(f"{name} ({app['makes']})" for name, app in APPS.items())
    return {"rows": table(head, rows), "apps": apps}


if __name__ == "__main__":
    sys.exit(main("local_aws", measure))
