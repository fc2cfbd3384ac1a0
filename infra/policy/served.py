"""What is known of a model before it is served: how large it is, and what runs beside it."""

from dataclasses import dataclass

# Measured: 4 workers with numpy and protobuf take 110 MB more than the master alone; with
# TensorFlow imported 448 MB. A worker of 128 MiB covers both.
ASSUMED_WORKER_GIB = 0.125
# Assumption: the model server without a model. Replaced by measuring memory_gib.
ASSUMED_SERVER_GIB = 0.3


@dataclass(frozen=True, kw_only=True)
class Served:
    """One model, as it will lie on the machine. Sizes in GiB; None is unknown."""

    model_gib: float | None
    """Unpacked, all versions: every one found is loaded."""
    packed_gib: float | None = None
    """Of the archive."""
    has_code: bool | None = False
    """Whether Gunicorn runs; None for an archive that nobody here has looked into."""
    compressed: bool = True
    """False: it lies in S3 as files, and nothing is unpacked."""
    multi_model: bool = False
    """Several models, each loaded by a server of its own when it is asked for."""
    measured_server_gib: float | None = None
    """Resident memory of one model server with everything loaded."""
    measured_worker_gib: float | None = None
    """Memory of its own that one worker takes."""

    @property
    def server_gib(self) -> float | None:
        """Memory of one model server, measured or assumed."""
        if self.measured_server_gib is not None:
            return self.measured_server_gib
        return None if self.model_gib is None else self.model_gib + ASSUMED_SERVER_GIB

    @property
    def worker_gib(self) -> float:
        """Memory of one worker, measured or assumed."""
        return ASSUMED_WORKER_GIB if self.measured_worker_gib is None else self.measured_worker_gib
