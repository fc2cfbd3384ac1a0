"""The plans of an endpoint's processes: their settings and their ports."""

from dataclasses import InitVar, dataclass, replace
from pathlib import Path
from socket import socket
from typing import Any, Self

from servable_local.container import ports
from servable_local.container.faults import FILE as FAULTS
from servable_local.container.recording import Recording
from servable_local.container.settings import PORT, PORT_RANGE, BatchingPlan, StartSettings
from servable_tensors.archive import ArchiveCode

Models = dict[str, dict[int, Path]]
"""Name -> version -> folder of its SavedModel."""


@dataclass(frozen=True, kw_only=True)
class ServerPlan:
    """The plan of a model server process. Threads of 0 mean a pool of the number of vCPUs."""

    models: Models
    port: int
    """The gRPC port; the REST port follows it."""
    inter_op_threads: int
    intra_op_threads: int
    batching: BatchingPlan | None
    faults: Path
    """The file of fault injection, see faults.py."""

    @classmethod
    def from_json(cls, plan: dict[str, Any]) -> Self:
        models = {
            name: {int(version): Path(folder) for version, folder in versions.items()}
            for name, versions in plan["models"].items()
        }
        batching = BatchingPlan(**plan["batching"]) if plan["batching"] else None
        changed = {"models": models, "batching": batching, "faults": Path(plan["faults"])}
        return cls(**(plan | changed))


@dataclass(kw_only=True)
class EndpointPlan:
    """The plan of an endpoint, whose ports stay reserved while this process lives.

    `front`: the running plan that this one replaces, whose port it keeps; the other ports are new.
    Raises `PortError` for unavailable ports.
    """

    settings: StartSettings
    folder: Path
    models: Models
    default_model: str
    code: ArchiveCode | None
    record: Recording | None
    front: InitVar["EndpointPlan | None"]
    socket: str = "gunicorn.sock"
    """Gunicorn's socket, in the folder. Each plan of an endpoint has its own."""

    def __post_init__(self, front: "EndpointPlan | None") -> None:
        if front is not None:
            self.settings = replace(self.settings, port_range=None)
        count = 2 * self.settings.model_servers
        if self.settings.port_range is None:
            # SageMaker names a range; without one the image takes 9000 and 8501, or fails.
            self._low, self._kept = ports.reserve_range(count)
        else:
            self._low = self.settings.port_range[0]
            self._kept = [ports.reserve_port(self._low + number) for number in range(count)]
        self._front: socket = front._front if front else ports.reserve_port(self.settings.port)
        self.port = int(self._front.getsockname()[1])
        """Port of the nginx stand-in."""

    @property
    def has_gunicorn(self) -> bool:
        return self.code is not None or self.settings.multi_model

    def free_ports(self) -> None:
        """Free the ports of the model servers, which have ended."""
        for reservation in self._kept:
            reservation.close()

    def plan_server(self, number: int) -> ServerPlan:
        """Return the plan of the server with this number, with every model of the archive."""
        return self.plan_models_server(self.models, self._low + 2 * number)

    def plan_models_server(self, models: Models, port: int) -> ServerPlan:
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
        code, settings = self.code, self.settings
        return {
            "socket": self.socket,
            "import_paths": [str(path) for path in code.import_paths] if code else [],
            "problems": code.packages.problems if code else [],
            "inference": str(code.inference) if code and code.inference else None,
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
            "default_model": self.default_model,
            "tensorflow": self.settings.tensorflow,
            "read_timeout_seconds": float(self.settings.read_timeout_seconds),
            "record": self.record,
        }

    def build_variables(self) -> dict[str, str]:
        """Return the environment variables that the start script adds for Gunicorn."""
        settings = self.settings
        grpc, rest = self._list_ports()
        low, high = settings.port_range or (self._low, self._low + 2 * settings.model_servers + 1)
        return {
            "TFS_GRPC_PORTS": ",".join(map(str, grpc)),
            "TFS_REST_PORTS": ",".join(map(str, rest)),
            "TFS_DEFAULT_MODEL_NAME": self.default_model,
            PORT: str(self.port),
            PORT_RANGE: f"{low}-{high}",
            "SAGEMAKER_MULTI_MODEL": str(settings.multi_model),
            "SAGEMAKER_TFS_WAIT_TIME_SECONDS": str(settings.wait_seconds),
            "SAGEMAKER_TFS_INSTANCE_COUNT": str(settings.model_servers),
            "SAGEMAKER_TFS_INTER_OP_PARALLELISM": str(settings.inter_op_threads),
            "SAGEMAKER_TFS_INTRA_OP_PARALLELISM": str(settings.intra_op_threads),
        }

    def _list_ports(self) -> tuple[list[int], list[int]]:
        ends = self._low + 2 * self.settings.model_servers
        return list(range(self._low, ends, 2)), list(range(self._low + 1, ends, 2))
