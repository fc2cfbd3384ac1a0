"""The plans of an endpoint's processes: their settings and their ports."""

import copy
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from socket import socket
from typing import Any, Self

from servable_local.container import ports
from servable_local.container.faults import FILE as FAULTS
from servable_local.container.gunicorn import SOCKET
from servable_local.container.recording import Recording
from servable_local.container.settings import PORT, PORT_RANGE, BatchingPlan, StartSettings
from servable_tensors.archive import ArchiveCode


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """The plan of a model server process. Threads of 0 mean a pool of the number of vCPUs."""

    models: dict[str, dict[int, Path]]
    """Name -> version -> folder of its SavedModel."""
    port: int
    """The gRPC port; the REST port follows it."""
    inter_op_threads: int
    intra_op_threads: int
    batching: BatchingPlan | None
    faults: Path
    """The file of fault injection, see faults.py."""

    def as_json(self) -> dict[str, Any]:
        plan: dict[str, Any] = json.loads(json.dumps(asdict(self), default=str))
        return plan

    @classmethod
    def from_json(cls, plan: dict[str, Any]) -> Self:
        models = {
            name: {int(version): Path(folder) for version, folder in versions.items()}
            for name, versions in plan["models"].items()
        }
        batching = BatchingPlan(**plan["batching"]) if plan["batching"] else None
        return cls(
            **{**plan, "models": models, "batching": batching, "faults": Path(plan["faults"])}
        )


class EndpointPlan:
    """The plan of an endpoint, whose ports stay reserved while this process lives.

    Raises `PortError` for unavailable ports.
    """

    def __init__(
        self,
        settings: StartSettings,
        *,
        folder: Path,
        models: dict[str, dict[int, Path]],
        default_model: str,
        code: ArchiveCode | None,
        record: Recording | None = None,
        front: "EndpointPlan | None" = None,
    ) -> None:
        """Reserve new ports, except that of `front`, the running plan that this one replaces."""
        if front is not None:
            settings = replace(settings, port_range=None)
        self.socket = SOCKET
        """Gunicorn's socket. Each plan of an endpoint has its own."""
        self.settings = settings
        self.folder = folder
        self.has_gunicorn = code is not None or settings.multi_model
        self._models = models
        self._default_model = default_model
        self._code = code
        self._record = record
        count = 2 * settings.model_servers
        if settings.port_range is None:
            # SageMaker names a range; without one the image takes 9000 and 8501, or fails.
            self._low, self._kept = ports.reserve_range(count)
        else:
            self._low = settings.port_range[0]
            self._kept = [ports.reserve_port(self._low + number) for number in range(count)]
        self._front: socket = front._front if front else ports.reserve_port(settings.port)
        self.port = int(self._front.getsockname()[1])
        """Port of the nginx stand-in."""

    def copy_with_code(self, code: ArchiveCode | None) -> "EndpointPlan":
        """Return a plan of the same model servers with different code."""
        changed = copy.copy(self)
        changed._code, changed.has_gunicorn = code, code is not None
        return changed

    def free_ports(self) -> None:
        """Free the ports of the model servers, which have ended."""
        for reservation in self._kept:
            reservation.close()

    def plan_server(self, number: int) -> ServerPlan:
        """Return the plan of the server with this number, with every model of the archive."""
        return self.plan_models_server(self._models, self._low + 2 * number)

    def plan_models_server(self, models: dict[str, dict[int, Path]], port: int) -> ServerPlan:
        """Return the plan of a model server of these models, on this port and the next."""
        return ServerPlan(
            models=models,
            port=port,
            inter_op_threads=self.settings.inter_op_threads,
            intra_op_threads=self.settings.intra_op_threads,
            batching=self.settings.batching,
            faults=self.folder / FAULTS,
        )

    def build_gunicorn_plan(self) -> dict[str, Any]:
        code, settings = self._code, self.settings
        inference = code.inference if code else None
        return {
            "socket": self.socket,
            "import_paths": [str(path) for path in code.import_paths] if code else [],
            "problems": code.packages.problems if code else [],
            "inference": str(inference) if inference else None,
            "multi_model": settings.multi_model,
            "tensorflow": settings.tensorflow,
            "timeout_seconds": settings.wait_seconds,
            "gunicorn": {
                "workers": settings.workers,
                "threads": settings.threads,
                "worker_class": settings.worker_class,
                "timeout": settings.gunicorn_timeout_seconds,
                "loglevel": settings.gunicorn_log_level,
            },
        }

    def build_nginx_plan(self) -> dict[str, Any]:
        return {
            "port": self.port,
            "gunicorn": self.socket if self.has_gunicorn else None,
            "serves": self.socket,
            "rest_ports": [] if self.settings.multi_model else self._list_ports()[1],
            "default_model": self._default_model,
            "tensorflow": self.settings.tensorflow,
            "read_timeout_seconds": float(self.settings.read_timeout_seconds),
            "record": self._record,
        }

    def build_variables(self) -> dict[str, str]:
        """Return the environment variables that the start script adds for Gunicorn."""
        settings = self.settings
        grpc, rest = self._list_ports()
        low, high = settings.port_range or (self._low, self._low + 2 * settings.model_servers + 1)
        return {
            "TFS_GRPC_PORTS": ",".join(map(str, grpc)),
            "TFS_REST_PORTS": ",".join(map(str, rest)),
            "TFS_DEFAULT_MODEL_NAME": self._default_model,
            PORT: str(self.port),
            PORT_RANGE: f"{low}-{high}",
            "SAGEMAKER_MULTI_MODEL": str(settings.multi_model),
            "SAGEMAKER_TFS_WAIT_TIME_SECONDS": str(settings.wait_seconds),
            "SAGEMAKER_TFS_INSTANCE_COUNT": str(settings.model_servers),
            "SAGEMAKER_TFS_INTER_OP_PARALLELISM": str(settings.inter_op_threads),
            "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": str(settings.intra_op_threads),
        }

    def _list_ports(self) -> tuple[list[int], list[int]]:
        numbers = range(self.settings.model_servers)
        return [self._low + 2 * n for n in numbers], [self._low + 2 * n + 1 for n in numbers]
