"""What is simulated: a computer, the container's settings on it, and the work of one request."""

from dataclasses import dataclass
from typing import Literal

Spread = Literal["exponential", "constant"]


@dataclass(frozen=True, kw_only=True)
class SimulatedBatching:
    max_requests: int
    timeout_ms: float
    threads: int = 1
    """Batches that one model server computes at once."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of one request, in milliseconds of one idle core."""

    handler_ms: float = 0.0
    """In a worker, half before the model is asked and half after."""
    call_ms: float
    """In a model server; of a batch, once."""
    row_ms: float = 0.0
    """In a model server; of a batch, for each request in it."""
    parallel_share: float = 0.0
    """Share of the model's work that intra-op threads do in parallel (Amdahl's law)."""
    spread: Spread = "exponential"
    worker_mib: float = 0.0
    process_mib: float = 0.0


@dataclass(frozen=True, kw_only=True)
class System:
    """Cores are shared equally by the threads that have work."""

    cores: int
    memory_mib: float = float("inf")
    workers: int = 1
    workers_wait: bool = True
    """Does a worker wait for the model's answer (sync), or take another request (gevent)?"""
    processes: int = 1
    calls_at_once: int = 1
    """In one model server: its inter-op threads."""
    threads_per_call: int = 1
    """Its intra-op threads."""
    batching: SimulatedBatching | None = None
    switching_share: float = 0.0
    """Share of all cores' time that each thread beyond the number of cores costs, per core."""
    work: Work

    @property
    def needed_mib(self) -> float:
        return self.workers * self.work.worker_mib + self.processes * self.work.process_mib

    @property
    def fits(self) -> bool:
        return self.needed_mib <= self.memory_mib

    @property
    def speedup(self) -> float:
        """Speedup of the model's work by its intra-op threads on idle cores."""
        threads, share = min(self.threads_per_call, self.cores), self.work.parallel_share
        return 1 / (1 - share + share / threads)

    def efficiency(self, threads: int) -> float:
        """Efficiency of the cores with so many busy threads."""
        beyond = max(0, threads - self.cores) / self.cores
        return 1 / (1 + self.switching_share * beyond)

    def speed(self, threads: int) -> float:
        """Speed of each thread; 1.0 is a core of its own."""
        return min(1.0, self.cores / threads) * self.efficiency(threads) if threads else 1.0
