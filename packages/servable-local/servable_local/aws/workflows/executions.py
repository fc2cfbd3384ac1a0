"""Step Functions: executions that run, and the services that their tasks call.

moto stores state machines and executions; here an execution runs, ends, publishes its metrics,
and sends its event. Sources:
https://docs.aws.amazon.com/step-functions/latest/dg/connect-sagemaker.html,
procedure-cw-metrics.html and eventbridge-integration.html next to it (2026-11-28)
"""

import json
import threading
import traceback
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar

from botocore import xform_name
from botocore.exceptions import BotoCoreError, ClientError
from moto.core.responses import ActionResult
from moto.stepfunctions import urls
from moto.stepfunctions.responses import StepFunctionResponse

from servable_local.aws.clock import utc_now
from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.errors import AwsError
from servable_local.aws.loopback import Loopback, Regions
from servable_local.aws.sagemaker.described import convert_times
from servable_local.aws.workflows.definition import (
    FAILED,
    TIMEOUT,
    AbortedError,
    Data,
    Definition,
    StateError,
    Steps,
    Stopped,
)
from servable_scaling.alarms.query import Metric

_SYNC = ".sync"
_JOB = "arn:aws:states:::sagemaker:createTransformJob"
# Resource of a task -> service, operation, and the name of the service in errors.
RESOURCES: Mapping[str, tuple[str, str, str]] = {
    _JOB: ("sagemaker", "CreateTransformJob", "SageMaker"),
    _JOB + _SYNC: ("sagemaker", "CreateTransformJob", "SageMaker"),
    "arn:aws:states:::sns:publish": ("sns", "Publish", "Sns"),
}
_LOOK_SECONDS = 0.05


class _Run:
    """An execution that runs. `kept` is moto's record of it."""

    def __init__(
        self, kept: Any, definition: Definition, aws: Loopback, cloudwatch: CloudWatch
    ) -> None:
        self.stopping = threading.Event()
        self._kept, self._definition = kept, definition
        self._aws, self._cloudwatch, self._clock = aws, cloudwatch, cloudwatch.clock
        self._began = self._clock.now()
        self.machine = kept.state_machine_arn
        self.thread = threading.Thread(target=self._run, name=f"execution {kept.name}", daemon=True)

    def _run(self) -> None:
        kept, status = self._kept, "SUCCEEDED"
        self._send_event("RUNNING")
        context = {
            "Execution": {
                "Id": kept.execution_arn,
                "Name": kept.name,
                "Input": json.loads(kept.execution_input),
                "StartTime": f"{self._began.isoformat(timespec='milliseconds')}Z",
            },
            "StateMachine": {"Id": kept.state_machine_arn},
        }
        try:
            given = context["Execution"]["Input"]
            steps = Steps(self._perform_task, self._wait, self._pause, self.stopping.is_set)
            kept.output = json.dumps(self._definition.run(given, context, steps))
        except AbortedError:
            status = "ABORTED"
        except StateError as error:
            kept.error, kept.cause = error.error, error.cause
            late = error.error == TIMEOUT and error.cause == ""
            status = "TIMED_OUT" if late else "FAILED"
        except Exception as error:
            traceback.print_exc()
            kept.error, kept.cause = "States.Runtime", f"the local AWS failed: {error!r}"
            status = "FAILED"
        at = self._clock.now()
        kept.stop_date, kept.status = utc_now(), status
        names = {"StateMachineArn": kept.state_machine_arn}
        took = (at - self._began).total_seconds() * 1000
        counted = status.title().replace("_", "")
        published = {f"Executions{counted}": (1, "Count"), "ExecutionTime": (took, "Milliseconds")}
        for name, (value, unit) in published.items():
            metric = Metric.from_dimensions("AWS/States", name, names)
            self._cloudwatch.metrics.add(metric, value, unit=unit, at=at)
        self._send_event(status)

    def _send_event(self, status: str) -> None:
        kept, kind = self._kept, "Step Functions Execution Status Change"
        detail = {
            "executionArn": kept.execution_arn, "stateMachineArn": kept.state_machine_arn,
            "name": kept.name, "status": status, "input": kept.execution_input,
            "output": kept.output, "error": kept.error, "cause": kept.cause,
        }  # fmt: skip
        self._aws.send_event("aws.states", kind, detail, kept.execution_arn, self._clock.now())

    def _pause(self, seconds: float, stopped: Stopped) -> None:
        if self._clock.seconds_per_minute is not None:
            self._wait(seconds, stopped)

    def _wait(self, seconds: float, stopped: Stopped) -> None:
        until = self._clock.now() + timedelta(seconds=seconds)
        while self._clock.now() < until:
            self._wait_briefly(stopped)

    def _wait_briefly(self, stopped: Stopped) -> None:
        """Wait a moment. Raises AbortedError or StateError if the execution is over."""
        self._check_timeout()
        if stopped() or self.stopping.wait(_LOOK_SECONDS):
            raise AbortedError

    def _check_timeout(self) -> None:
        most = self._definition.timeout_seconds
        if most is not None and (self._clock.now() - self._began).total_seconds() > most:
            raise StateError(TIMEOUT, "")

    def _perform_task(
        self, resource: str, given: Data, timeout_seconds: float | None, stopped: Stopped
    ) -> Data:
        service, operation, named = RESOURCES[resource]
        client = self._aws.client(service)
        try:
            answer = _convert_response(getattr(client, xform_name(operation))(**given))
            if not resource.endswith(_SYNC):
                return answer
            return self._wait_for_job(client, given["TransformJobName"], timeout_seconds, stopped)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            name = code if code.endswith("Exception") else f"{code}Exception"
            raise StateError(f"{named}.{name}", str(error)) from None
        except (BotoCoreError, TypeError) as error:
            raise StateError("States.Runtime", str(error)) from None

    def _wait_for_job(
        self, client: Any, job: str, timeout_seconds: float | None, stopped: Stopped
    ) -> Data:
        """Return DescribeTransformJob's response; stop a job whose wait ends early."""
        began = self._clock.now()
        while True:
            shown = _convert_response(client.describe_transform_job(TransformJobName=job))
            status = shown["TransformJobStatus"]
            if status == "Completed":
                return shown
            if status in ("Failed", "Stopped"):
                raise StateError(FAILED, json.dumps(shown))
            waited = (self._clock.now() - began).total_seconds()
            try:
                if timeout_seconds is not None and waited > timeout_seconds:
                    raise StateError(TIMEOUT, f"{job} took more than {timeout_seconds:g} s")
                self._wait_briefly(stopped)
            except (StateError, AbortedError):
                if status == "InProgress":
                    client.stop_transform_job(TransformJobName=job)
                raise


def _convert_response(answer: Any) -> Any:
    """Convert a response to the integration's format, with times in milliseconds."""
    return convert_times({k: v for k, v in answer.items() if k != "ResponseMetadata"})


class Executions:
    """The executions of an account and Region by ARN, also those that have ended."""

    def __init__(self, aws: Loopback, cloudwatch: CloudWatch) -> None:
        self._aws, self._cloudwatch = aws, cloudwatch
        self._runs: dict[str, _Run] = {}

    def start(self, kept: Any, definition: str) -> None:
        """Start an execution of moto's record `kept`, unless its name and input already run."""
        if kept.execution_arn not in self._runs:
            run = _Run(kept, Definition(definition, RESOURCES), self._aws, self._cloudwatch)
            self._runs[kept.execution_arn] = run
            run.thread.start()

    def stop(self, arn: str) -> None:
        if (run := self._runs.get(arn)) is not None:
            run.stopping.set()
            run.thread.join()

    def close(self, machine: str | None = None) -> None:
        """Stop the executions of a state machine, or all."""
        for arn, run in list(self._runs.items()):
            if machine in (None, run.machine):
                self.stop(arn)


def install(executions: Regions[Executions]) -> None:
    """Handle requests about state machines here, with a server's executions."""
    StateMachinesApi.executions = executions
    urls.url_paths.update({"{0}/$": StateMachinesApi.dispatch})


class StateMachinesApi(StepFunctionResponse):
    """The API of state machines. `executions` are the running server's; moto provides the rest."""

    executions: ClassVar[Regions[Executions]]

    def _check_definition(self) -> None:
        if self._get_param("type") == "EXPRESS":
            problem = "the local AWS doesn't emulate EXPRESS state machines"
            raise AwsError("StateMachineTypeNotSupported", problem)
        if definition := self._get_param("definition"):
            try:
                Definition(definition, RESOURCES)
            except (ValueError, KeyError, TypeError, NotImplementedError) as error:
                problem = f"Invalid State Machine Definition: '{error}'"
                raise AwsError("InvalidDefinition", problem) from None

    def create_state_machine(self) -> ActionResult:
        self._check_definition()
        return super().create_state_machine()

    def update_state_machine(self) -> ActionResult:
        self._check_definition()
        return super().update_state_machine()

    def start_execution(self) -> ActionResult:
        backend = self.stepfunction_backend
        machine = backend.describe_state_machine(self._get_param("stateMachineArn"))
        answer = super().start_execution()
        started: Any = answer.result
        here = self.executions.provide_service(self.current_account, self.region)
        here.start(backend.describe_execution(started["executionArn"]), machine.definition)
        return answer

    def stop_execution(self) -> ActionResult:
        arn = self._get_param("executionArn")
        kept = self.stepfunction_backend.describe_execution(arn)
        self.executions.provide_service(self.current_account, self.region).stop(arn)
        return ActionResult({"stopDate": kept.stop_date})

    def delete_state_machine(self) -> ActionResult:
        here = self.executions.provide_service(self.current_account, self.region)
        here.close(self._get_param("stateMachineArn"))
        return super().delete_state_machine()
