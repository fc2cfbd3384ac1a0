"""A local AWS in this process that `servable accept` is run against: its calls are recorded, and can fail."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, cast
from urllib.parse import parse_qsl, unquote

from infra.policy.acceptance_policy import TAG
from servable_local.aws import LocalAws
from servable_local.aws.clock import ScaledClock
from servable_local.aws.inventory import inventory
from servable_local.aws.local_aws import ACCOUNT
from servable_local.aws.loopback import PREFIX, service_model
from servable_local.aws.refusals import AccessError, Reason, refusal
from servable_local.aws.server import Server
from servable_local.aws.signed_request import ReceivedRequest
from servable_local.aws.state_file import RunningState, StateFile, write_client_settings
from tests.checkouts import PATH, ROOT, bootstrapped
from tests.servable_local.aws.container_stand_in import Launcher, StandIn

SECONDS_PER_MINUTE = 2.0
_OF_THE_COMMAND = "accept-run"
ANSWER = (ROOT / "examples/ranker/golden/answer-rows.json").read_bytes()
# What a service's actions begin with in a policy, where it is not the name of its endpoint.
_SIGNED_AS = {"monitoring": "cloudwatch", "servicequotas": "service-quotas"}
Caller = Literal["user", "role", "service"]
Ran = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class RecordedCall:
    """One request to the local AWS."""

    caller: Caller
    """The shell's own key, a role that a command assumed, or the local AWS in a service's name."""
    service: str
    """As boto3 names it."""
    operation: str
    arguments: Mapping[str, Any] = field(hash=False)


class RankerLauncher(Launcher):
    """Stand-ins that answer as the ranker does, or as the broken code in their archive says."""

    def __call__(
        self,
        archive: Path | None,
        variables: Mapping[str, str],
        *,
        ready_timeout_seconds: float = 60.0,
        log: Path | None = None,
    ) -> StandIn:
        assert archive is not None  # no environment of a run is multi-model
        code = _code(archive)
        if "\nraise RuntimeError" in code:
            raise RuntimeError("The container did not answer its ping within 60 s.")
        status = "500" if "postprocess" in code else "400" if "InputError" in code else "200"
        if "SAGEMAKER_BATCH" in variables:  # a line for each row
            return super().__call__(archive, {**variables, "ECHO": ""})
        one = super().__call__(archive, {**variables, "STATUS": status})
        one.answer = ANSWER
        return one


def _code(archive: Path) -> str:
    with tarfile.open(archive) as tar:
        name = next((name for name in tar.getnames() if name.endswith("code/transforms.py")), None)
        file = None if name is None else tar.extractfile(name)
        return "" if file is None else file.read().decode()


class Acceptance:
    """The local AWS, bootstrapped or not, in a folder that `servable accept --local` is run in."""

    def __init__(self, server: Server, aws: LocalAws, folder: Path) -> None:
        self._application, self.aws, self.folder = server._server.app, aws, folder
        server._server.app = self
        self.calls: list[RecordedCall] = []
        self.fault: Callable[[RecordedCall], AccessError | None] = lambda call: None
        """Asked of each call of the command: an error that answers it."""
        self.quotas: Mapping[str, float] = {}
        """Quotas of SageMaker by name; empty: none are listed, as in the local AWS."""
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        request = ReceivedRequest(
            environ["REQUEST_METHOD"], environ["RAW_URI"], environ["servable.headers"]
        )
        if request.path.startswith(PREFIX):
            return self._application(environ, start)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        call = recorded_call(request, body)
        with self._lock:
            self.calls.append(call)
        if call.service == "service-quotas" and self.quotas:
            quotas = [{"QuotaName": name, "Value": value} for name, value in self.quotas.items()]
            start("200 OK", [("Content-Type", "application/x-amz-json-1.1")])
            return [json.dumps({"Quotas": quotas}).encode()]
        error = None if call.caller == "service" else self.fault(call)
        if error is None:
            return self._application(environ, start)
        answer = refusal(request, error)
        start(answer.status, [*answer.headers.items(), ("Content-Length", str(len(answer.body)))])
        return [answer.body]

    def inventory(self) -> list[tuple[str, str]]:
        """Everything of every service, stacks too."""
        stacks = self.aws.client("cloudformation").describe_stacks()["Stacks"]
        names = [one["StackName"] for one in stacks if one["StackStatus"] != "DELETE_COMPLETE"]
        return sorted([*inventory(self.aws), *(("stack", name) for name in names)])

    @property
    def environment(self) -> dict[str, str]:
        # The SDKs tell it in their User-Agent: it tells the command's calls from the services'.
        own = {"AWS_EXECUTION_ENV": _OF_THE_COMMAND}
        return self.aws.environment_over({**os.environ, "PATH": PATH}) | own

    def tagged_keys(self) -> set[str]:
        """Ids of the KMS keys of runs, which wait for their deletion."""
        kms = self.aws.client("kms")
        keys = [
            key["KeyId"]
            for page in kms.get_paginator("list_keys").paginate()
            for key in page["Keys"]
        ]
        tags = {key: kms.list_resource_tags(KeyId=key)["Tags"] for key in keys}
        return {key for key in keys if any(tag["TagKey"] == TAG for tag in tags[key])}

    def accept(self, *words: str, timeout_seconds: float = 300) -> Ran:
        """Run the command to its end."""
        process = self.start(*words)
        output, errors = process.communicate(timeout=timeout_seconds)
        return Ran(process.args, process.returncode, output, errors)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "servable", "accept", "--local", "--yes", *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def interrupted(
        self, when: Callable[["Acceptance"], bool], *words: str, number: int = signal.SIGINT
    ) -> Ran:
        """Send a signal to the command once `when` is true, and wait for its end."""
        process = self.start(*words)
        deadline = time.monotonic() + 200
        while not when(self):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(process.pid, number)
        output, errors = process.communicate(timeout=300)
        return Ran(process.args, process.returncode, output, errors)

    def reports(self) -> list[dict[str, Any]]:
        """Oldest first."""
        files = sorted(self.folder.glob("accept-*.json"))
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]


class ThrottlingError(AccessError):
    """AWS answers so where a caller asks too often; clients try again."""

    def __init__(self) -> None:
        super().__init__(Reason.FORM, "Rate exceeded")
        self.reason = cast(Any, SimpleNamespace(value=_THROTTLING))


_THROTTLING = ("SlowDown", "Throttling", "ThrottlingException")


def expired(call: RecordedCall) -> AccessError:
    return AccessError(
        Reason.TOKEN_EXPIRED, "The security token included in the request is expired"
    )


@contextmanager
def acceptance(folder: Path) -> Iterator[Acceptance]:
    """A bootstrapped local AWS whose minute lasts two seconds, with stand-ins of containers.

    One for a process: moto keeps its state in it.
    """
    # Read when the first role is made: `cdk bootstrap` attaches a policy that AWS itself manages.
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"
    (folder / "environments").mkdir(parents=True)  # the project that the command stands in
    state, clock = folder / ".servable", ScaledClock(SECONDS_PER_MINUTE)
    state_file = StateFile(state)
    with state_file.hold():
        write_client_settings(state / "client")
        (state / "endpoints").mkdir()
        launch = RankerLauncher(cast(Any, clock))
        server = Server(folder=state / "endpoints", launch=launch, clock=clock)
        made = Acceptance(
            server,
            LocalAws(server.url, os.getpid(), "now", state, server.access.secret_access_key),
            folder,
        )
        server.start()
        state_file.write(
            RunningState(
                pid=os.getpid(),
                port=server.port,
                url=server.url,
                started="now",
                secret_access_key=server.access.secret_access_key,
                seconds_per_minute=SECONDS_PER_MINUTE,
            )
        )
        try:
            bootstrapped(made.aws)
            yield made
        finally:
            server.close()


# --- requests as operations


def recorded_call(request: ReceivedRequest, body: bytes) -> RecordedCall:
    """The operation that a request is, by botocore's models, and the arguments that can be read."""
    scope = (request.header("authorization") or "").partition("Credential=")[2].split("/")
    commands = _OF_THE_COMMAND in (request.header("user-agent") or "")
    caller: Caller = "service" if not commands else "user" if scope[0] == ACCOUNT else "role"
    signed = scope[3] if len(scope) > 3 else "s3"
    target = request.header("x-amz-target")
    if target:
        service, operation = _by_target(target, signed)
        return RecordedCall(caller, service, operation, json.loads(body or b"{}"))
    form = dict(parse_qsl(body.decode("latin-1"))) if b"Action=" in body else {}
    service = _SIGNED_AS.get(signed, signed)
    if "Action" in form:
        return RecordedCall(caller, service, form["Action"], form)
    if signed == "sagemaker":
        service = "sagemaker-runtime"
    more: dict[str, str] = {}
    if component := request.header("x-amzn-sagemaker-inference-component"):
        more["InferenceComponentName"] = component
    if b"ServerSideEncryptionConfiguration" in body:
        more["Body"] = body.decode()
    return _by_path(caller, service, request, more)


def _by_target(target: str, signed: str) -> tuple[str, str]:
    name, _, operation = target.partition(".")
    services = {
        "AnyScaleFrontendService": "application-autoscaling",
        "AWSStepFunctions": "stepfunctions",
    }
    return services.get(name, _SIGNED_AS.get(signed, signed)), operation


@cache
def _paths(service: str) -> list[tuple[str, str, re.Pattern[str], frozenset[str], int]]:
    """(operation, method, path, names in query and headers, literal letters) of a service with paths."""
    found = []
    for name in service_model(service).operation_names:
        model = service_model(service).operation_model(name)
        # A client of S3 takes the bucket out of the path, and keeps here where it was.
        uri = model.http.get("authPath") or model.http["requestUri"]
        path, query = uri.partition("?")[0], model.http["requestUri"].partition("?")[2]
        members = model.input_shape.members if model.input_shape else {}
        required = model.input_shape.required_members if model.input_shape else []
        names = {part.partition("=")[0].lower() for part in query.split("&") if part}
        names |= {
            members[one].serialization["name"].lower()
            for one in required
            if members[one].serialization.get("location") in ("querystring", "header")
        }
        pattern = re.sub(r"\\\{(\w+)\\\+\\\}", r"(?P<\1>.+)", re.escape(path.rstrip("/") or "/"))
        pattern = re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>[^/]+)", pattern)
        literal = len(re.sub(r"\{.*?\}", "", path))
        found.append(
            (name, model.http["method"], re.compile(f"{pattern}/?"), frozenset(names), literal)
        )
    return sorted(found, key=lambda one: (-len(one[3]), -one[4], one[0]))


def _by_path(
    caller: Caller, service: str, request: ReceivedRequest, more: dict[str, str]
) -> RecordedCall:
    path, _, text = request.target.partition("?")
    query = dict(parse_qsl(text, keep_blank_values=True))
    there = {name.lower() for name in (*query, *(name for name, _ in request.headers))}
    for operation, method, pattern, names, _ in _paths(service):
        match = pattern.fullmatch(path)
        if method == request.method and match and names <= there:
            arguments = {name: unquote(value) for name, value in match.groupdict().items()}
            return RecordedCall(caller, service, operation, arguments | query | more)
    return RecordedCall(caller, service, f"{request.method} {path}", query)
