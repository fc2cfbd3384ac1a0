"""A transform job: a model's container processes the objects of a bucket.

Sources: your-algorithms-batch-code.md, batch-transform.md and batch-transform-errors.md of
SageMaker's guide, API_CreateTransformJob.html (2026-11-27). Which requests AWS retries isn't
documented: here those without a response and those with a 5xx response.
"""

import functools
import io
import json
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from botocore.exceptions import BotoCoreError, ClientError

from servable_local.aws.clock import utc_now
from servable_local.aws.errors import SageMakerError
from servable_local.aws.sagemaker.container import Container, VariantStartError
from servable_local.aws.sagemaker.fleet import Host, list_model_containers
from servable_local.aws.sagemaker.model_data import (
    build_encryption,
    fetch_model_data,
    find_data_url,
    list_keys,
    merge_package,
    parse_s3_location,
)
from servable_local.aws.sagemaker.transform_requests import (
    MB,
    READY_SECONDS,
    AnswerError,
    Limits,
    RequestSender,
    StoppedError,
    read_limits,
    transform,
)
from servable_local.container.image_code import parse_image_version
from servable_local.container.settings import build_batch_variables
from servable_tensors.records import DataProcessing, TransformError, compute_relative_name

LOG_GROUP = "/aws/sagemaker/TransformJobs"
_ONLY = "the local AWS transforms only with a model with exactly one container with model data"
_NONE = "the local AWS was started with --containers 0; a transform job needs 1 or more"


# Bucket, key, and the key of its result below the output's prefix.
_Object = tuple[str, str, str]


class _JobError(Exception):
    """The whole job fails. `str()` is its FailureReason."""


class TransformJob:
    """A job: InProgress -> Completed | Failed; InProgress -> Stopping -> Stopped."""

    def __init__(
        self,
        request: Mapping[str, Any],
        arn: str,
        model: Mapping[str, Any],
        host: Host,
        send_event: Callable[["TransformJob"], None],
    ) -> None:
        """Initialize. `model` is the CreateModel request. Raises ValueError if AWS rejects it."""
        self.name = str(request["TransformJobName"])
        self.arn = arn
        self.request = request
        self.status = "InProgress"
        self.failure: str | None = None
        self.created = self.modified = host.clock.now()
        self.started: datetime | None = None
        self.ended: datetime | None = None
        self._model, self._host, self._send_event = model, host, send_event
        DataProcessing(request)
        self._containers: list[Container] = []
        self._failures: list[str] = []
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        thread = f"transform {self.name}"
        self._thread = threading.Thread(target=self._run, name=thread, daemon=True)

    def describe(self) -> dict[str, Any]:
        """Return the response of DescribeTransformJob."""
        shown = {
            **self.request,
            "TransformJobArn": self.arn,
            "TransformJobStatus": self.status,
            "FailureReason": self.failure,
            "CreationTime": self.created,
            "TransformStartTime": self.started,
            "TransformEndTime": self.ended,
        }
        return {name: value for name, value in shown.items() if value is not None}

    def start(self) -> None:
        self._send_event(self)
        self._thread.start()

    def stop(self) -> None:
        with self._lock:
            if self.status != "InProgress":
                raise SageMakerError(
                    f"The request was rejected because the transform job is in status {self.status}."
                )
            self._set_status("Stopping")
        self._send_event(self)
        self._stopping.set()
        self._close_containers()

    def close(self) -> None:
        """End its containers, and return when the job has ended. Idempotent."""
        self._stopping.set()
        self._close_containers()
        self._thread.join()

    def _close_containers(self) -> None:
        with self._lock:
            containers = list(self._containers)
        for container in containers:
            container.close()

    def _set_status(self, status: str, failure: str | None = None) -> None:
        self.status, self.failure = status, failure
        self.modified = self._host.clock.now()

    def _run(self) -> None:
        status, failure = "Completed", None
        with tempfile.TemporaryDirectory(prefix="transform-", dir=self._host.folder) as folder:
            try:
                self._transform(Path(folder))
            except StoppedError:
                status = "Stopped"
            except (_JobError, VariantStartError, SageMakerError) as error:
                status, failure = "Failed", str(error)
            except Exception as error:
                traceback.print_exc()
                status, failure = "Failed", f"Internal failure of the local AWS: {error!r}"
            finally:
                self._close_containers()
        with self._lock:
            self._set_status("Stopped" if self._stopping.is_set() else status, failure)
            self.ended = self.modified
        self._send_event(self)

    def _transform(self, folder: Path) -> None:
        objects = list(self._list_objects())
        if not objects:
            uri = self.request["TransformInput"]["DataSource"]["S3DataSource"]["S3Uri"]
            raise _JobError(f"ClientError: No S3 objects found under S3 URL {uri!r}.")
        count = self.request["TransformResources"]["InstanceCount"]
        self._start_containers(folder, min(count, self._host.most_containers, len(objects)))
        self.started = self._host.clock.now()
        limits = read_limits(self.request, self._containers[0])
        strategy = "SINGLE_RECORD" if limits.single else "MULTI_RECORD"
        self._write_log(
            f"MaxConcurrentTransforms={limits.concurrent}, MaxPayloadInMB={limits.payload_mb}, "
            f"BatchStrategy={strategy}"
        )
        instances = len(self._containers)
        shares = [objects[number::instances] for number in range(instances)]
        with ThreadPoolExecutor(instances) as pool:
            run = functools.partial(self._run_instance, limits, folder)
            list(pool.map(run, self._containers, shares))
        if self._stopping.is_set():
            raise StoppedError
        if self._failures:
            kind = "ClientError" if "ClientError" in self._failures else "AlgorithmError"
            raise _JobError(f"{kind}: See job logs for more information")

    def _list_objects(self) -> Iterator[_Object]:
        source = self.request["TransformInput"]["DataSource"]["S3DataSource"]
        bucket, prefix = parse_s3_location(source["S3Uri"])
        s3 = self._host.aws.client("s3")
        try:
            if source["S3DataType"] == "ManifestFile":
                listed = s3.get_object(Bucket=bucket, Key=prefix)["Body"].read()
                head, *names = json.loads(listed)
                bucket, prefix = parse_s3_location(head["prefix"])
                yield from ((bucket, prefix + name, name) for name in names)
                return
            for key in list_keys(s3, bucket, prefix):
                if not key.endswith("/"):
                    yield bucket, key, compute_relative_name(prefix, key)
        except (ClientError, ValueError, LookupError) as error:
            raise _JobError(f"ClientError: {source['S3Uri']} cannot be read: {error}") from None

    def _start_containers(self, folder: Path, count: int) -> None:
        if not count:
            raise VariantStartError(_NONE)
        model, aws = self._model, self._host.aws
        containers = list_model_containers(model)
        container = merge_package(containers[0], aws)
        url = find_data_url(container)
        if len(containers) != 1 or url is None or container.get("Mode") == "MultiModel":
            raise VariantStartError(_ONLY)
        archive = fetch_model_data(url, aws, folder / "model.tar.gz")
        variables = parse_image_version(container.get("Image", ""))
        variables |= container.get("Environment", {})
        variables |= build_batch_variables(self.request) | self.request.get("Environment", {})
        launch = functools.partial(
            self._host.launch,
            archive,
            variables,
            log=self._host.folder / f"{self.name}.log",
            ready_timeout_seconds=READY_SECONDS,
        )
        for _ in range(count):
            started = Container(launch)
            with self._lock:
                self._containers.append(started)
            if self._stopping.is_set():
                raise StoppedError

    def _run_instance(
        self, limits: Limits, folder: Path, container: Container, objects: list[_Object]
    ) -> None:
        sender = RequestSender(container, self.request, self._stopping)
        with ThreadPoolExecutor(limits.concurrent) as pool:
            for bucket, key, name in objects:
                try:
                    self._transform_object(sender, pool, limits, folder, (bucket, key, name))
                except StoppedError:
                    return
                except TransformError as error:
                    self._record_failure(f"{bucket}/{key}", "ClientError", str(error))
                except AnswerError as error:
                    self._record_failure(f"{bucket}/{key}", error.kind, *error.lines)
                except Exception as error:  # each file has a result or a logged failure
                    said = f"ClientError: {type(error).__name__}: {error}"
                    self._record_failure(f"{bucket}/{key}", "ClientError", said)

    def _record_failure(self, location: str, kind: str, *lines: str) -> None:
        self._failures.append(kind)
        self._write_log(*(f"{location}: {line}" for line in lines))

    def _transform_object(
        self, sender: RequestSender, pool: Executor, limits: Limits, folder: Path, where: _Object
    ) -> None:
        """Store the result of one object, if all of it succeeds."""
        bucket, key, name = where
        s3, gave = self._host.aws.client("s3"), self.request["TransformOutput"]
        stored = s3.get_object(Bucket=bucket, Key=key)["Body"]
        with stored, tempfile.TemporaryFile(dir=folder) as out:
            body = cast(BinaryIO, io.BufferedReader(stored, MB))
            transform(self.request, limits, body, out, pool, lambda part, _: sender.send(part))
            out.seek(0)
            bucket, prefix = parse_s3_location(gave["S3OutputPath"])
            more = build_encryption(gave.get("KmsKeyId"))
            if "Accept" in gave:
                more["ContentType"] = gave["Accept"]
            result = "/".join(filter(None, [prefix.strip("/"), f"{name}.out"]))
            s3.upload_fileobj(out, bucket, result, ExtraArgs=more)

    def _write_log(self, *lines: str) -> None:
        """Write lines into the job's log stream, in AWS's format."""
        logs = self._host.aws.client("logs")
        at = utc_now()  # CloudWatch Logs rejects lines far from the real time
        stream = f"{self.name}/i-local/data-log"
        try:
            for create, more in (
                (logs.create_log_group, {}),
                (logs.create_log_stream, {"logStreamName": stream}),
            ):
                try:
                    create(logGroupName=LOG_GROUP, **more)
                except logs.exceptions.ResourceAlreadyExistsException:
                    pass
            since = round((at - datetime(1970, 1, 1)).total_seconds() * 1000)
            stamp = f"{at.isoformat(timespec='milliseconds')}:[sagemaker logs]: "
            events = [{"timestamp": since, "message": stamp + line} for line in lines]
            logs.put_log_events(logGroupName=LOG_GROUP, logStreamName=stream, logEvents=events)
        except (BotoCoreError, ClientError) as error:
            print(f"{self.name}: cannot write its log: {error}", file=sys.stderr)
