"""The local AWS in one process: moto's services, with ours instead of six of them."""

import functools
import importlib
import logging
import secrets
import shutil
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from moto.moto_server import werkzeug_app
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from servable_local.aws import moto_patches
from servable_local.aws.clock import Clock, ScaledClock
from servable_local.aws.cloudformation.api import CloudFormationApi
from servable_local.aws.cloudformation.operations import CloudFormation
from servable_local.aws.cloudwatch.alarms import CloudWatch
from servable_local.aws.cloudwatch.api import CloudWatchApi
from servable_local.aws.loopback import Access, Loopback, Regions
from servable_local.aws.moto_patches import every_service
from servable_local.aws.moto_patches.logs import LogsApi, write_output
from servable_local.aws.request_router import Controls, RequestHandler, RequestRouter
from servable_local.aws.sagemaker.container import Launch, launch_local_container
from servable_local.aws.sagemaker.endpoint_api import SageMakerApi
from servable_local.aws.sagemaker.hosting import RegionalHosting, close_endpoints
from servable_local.aws.sagemaker.runtime_api import RuntimeApi
from servable_local.aws.scaling.api import ScalingApi
from servable_local.aws.scaling.service import RegionalScaling
from servable_local.aws.signatures import AccessKeys, Verifier
from servable_local.protection import create_private_folder

if TYPE_CHECKING:
    from servable_local.aws.workflows.executions import Executions

# Otherwise, an extension lets every web page read responses.
setattr(werkzeug_app, "DISABLE_GLOBAL_CORS", True)  # noqa: B010 (mypy)

_HOST = "127.0.0.1"  # never an external address: deployed code runs with the user's rights
_SECRET_BYTES = 20  # 40 characters, as many as on AWS
# Poll interval for `close`; with werkzeug's 0.5 s, `servable local down` would take longer.
_END_LOOK_SECONDS = 0.05
# Service of moto -> module of its patches. Importing the service takes long.
_PATCHES = {
    "events": "events",
    "iam": "iam",
    "kms": "iam",
    "s3": "s3",
    "sns": "events",
    "sts": "iam",
}
_PATHS = {
    "moto.sagemaker.urls": {"{0}/$": SageMakerApi.dispatch},
    "moto.sagemakerruntime.urls": {
        "{0}/endpoints/(?P<name>[^/]+)/async-invocations$": RuntimeApi.dispatch,
        "{0}/endpoints/(?P<name>[^/]+)/invocations$": RuntimeApi.dispatch,
        "{0}/endpoints/(?P<name>[^/]+)/invocations-response-stream$": RuntimeApi.dispatch,
    },
    "moto.cloudwatch.urls": {"{0}/$": CloudWatchApi.dispatch},
    "moto.logs.urls": {"{0}/$": LogsApi.dispatch},
    "moto.applicationautoscaling.urls": {"{0}/$": ScalingApi.dispatch},
    "moto.ssm.urls": {},
}


class Server:
    """The only server of a process: moto's services keep their state in the process.

    `folder` contains the containers' logs and archives, and S3's objects, until the end; `launch`
    starts a container; alarms and deployments run on `clock`. A variant has at most
    `most_containers`, whatever its instance count: further instances are only counted. Callers
    sign with `secret_access_key`; by default a new one is generated. It is in `access`.
    """

    _running: ClassVar[str | None] = None

    def __init__(
        self,
        *,
        folder: Path,
        port: int = 0,
        launch: Launch = launch_local_container,
        clock: Clock | None = None,
        secret_access_key: str | None = None,
        most_containers: int = 1,
    ) -> None:
        """Start listening. Raises OSError if the port is taken, RuntimeError for a second server."""
        if Server._running is not None:
            raise RuntimeError(f"a local AWS already runs in this process: {Server._running}")
        self._clock = clock or ScaledClock()
        self._objects = folder / "objects"
        create_private_folder(self._objects)
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        # Before the first request, because moto builds a service's application from these once.
        for module, paths in _PATHS.items():
            every_service.import_without_ec2(module).url_paths.update(paths)
        every_service.install()
        controls = Controls(
            self._clock, lambda account, region: self.hostings.provide_service(account, region)
        )
        # Look up each host once: for every request, moto reads its folder and tries two hundred patterns,
        # a third of a small request's processor time (5.2 ms instead of 3.6 ms, moto 5.2.5).
        dispatcher: Any = DomainDispatcherApplication(self._create_app)
        dispatcher.get_backend_for_host = functools.cache(dispatcher.get_backend_for_host)
        secret = secret_access_key or secrets.token_hex(_SECRET_BYTES)
        # The router needs the port, which is only known once the server listens.
        self._server = make_server(
            _HOST, port, dispatcher, threaded=True, request_handler=RequestHandler
        )
        self.port: int = self._server.server_address[1]
        self.url = f"http://{_HOST}:{self.port}"
        verifier = Verifier(AccessKeys(secret))
        self._server.app = RequestRouter(dispatcher, controls, verifier, self.port, self._objects)
        self.access = Access(self.url, secret)
        self._cloudwatches = Regions(self.access, lambda aws: CloudWatch(aws, self._clock))
        CloudWatchApi.cloudwatches = LogsApi.cloudwatches = self._cloudwatches
        self._launch, self._folder, self._most_containers = launch, folder, most_containers
        self.hostings = Regions(self.access, self._create_hosting)
        ScalingApi.scalings = self._scalings = Regions(self.access, self._create_scaling)
        for api in (SageMakerApi, RuntimeApi, ScalingApi):
            api.hostings = self.hostings
        self._executions: Regions[Executions] = Regions(self.access, self._create_executions)
        self._fire: Callable[[Access, Regions[CloudWatch], datetime], None] | None = None
        CloudFormationApi.regions = Regions(self.access, CloudFormation)
        Server._running = self.url
        serve = functools.partial(self._server.serve_forever, _END_LOOK_SECONDS)
        self._thread = threading.Thread(target=serve, name="local aws", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._clock.call_every_tick(self._run_tick)

    def close(self) -> None:
        """End every endpoint, then the server. Idempotent."""
        self._clock.stop()
        for executions in self._executions.list_services():
            executions.close()
        close_endpoints(self.hostings)
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        shutil.rmtree(self._objects, ignore_errors=True)
        Server._running = None

    def _create_app(self, service: Any) -> Any:
        """Patch a service of moto and build its application, on the service's first use."""
        if name := _PATCHES.get(service):
            importlib.import_module(f"{moto_patches.__name__}.{name}").install()
        if service == "scheduler":
            from servable_local.aws.workflows import schedules

            schedules.install()
            self._fire = schedules.fire_schedules
        if service == "stepfunctions":
            from servable_local.aws.workflows import executions

            executions.install(self._executions)
        return create_backend_app(service)

    def _create_executions(self, aws: Loopback) -> "Executions":
        from servable_local.aws.workflows.executions import Executions

        return Executions(aws, self._cloudwatches.provide_service(aws.account, aws.region))

    def _create_hosting(self, aws: Loopback) -> RegionalHosting:
        cloudwatch = self._cloudwatches.provide_service(aws.account, aws.region)
        write_log = functools.partial(write_output, aws, cloudwatch)
        return RegionalHosting(
            aws, self._launch, self._folder, cloudwatch, write_log, self._most_containers
        )

    def _create_scaling(self, aws: Loopback) -> RegionalScaling:
        hosting = self.hostings.provide_service(aws.account, aws.region)
        return RegionalScaling(aws, hosting, hosting.cloudwatch)

    def _run_tick(self, at: datetime) -> None:
        # In this order, alarms use the metrics of the minute that ended, updates and scaling use the alarms,
        # and scaling uses the current instances.
        for hosting in self.hostings.list_services():
            hosting.measure(at)
        for scaling in self._scalings.list_services():
            scaling.publish_metrics(at)
        for cloudwatch in self._cloudwatches.list_services():
            cloudwatch.tick(at)
        for hosting in self.hostings.list_services():
            hosting.tick(at)
        for scaling in self._scalings.list_services():
            scaling.tick(at)
        if at.second == 0 and self._fire is not None:
            self._fire(self.access, self._cloudwatches, at)
