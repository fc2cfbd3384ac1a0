"""How long a step takes, and how many send it."""

from dataclasses import dataclass

from servable.load.arrivals import Arrivals

_LOCALHOST = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Pace:
    """How long a step takes."""

    warm_up_seconds: float = 2.0
    """Connections are opened and queues fill; in no number."""
    least_seconds: float = 4.0
    """Two seconds can be known within 5 % by chance."""
    most_seconds: float = 30.0
    """What is not known within 5 % by then is said to be unknown."""
    arrivals: Arrivals = "poisson"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Crowd:
    """Generator processes. One sends some thousands of requests per second, from one core."""

    processes: int = 1
    """On this machine."""
    elsewhere: int = 0
    """On other machines, each started by `servable load --join HOST:PORT`."""
    listen: tuple[str, int] = (_LOCALHOST, 0)
    """Where they join: unencrypted, for a private network. Port 0: any."""

    @property
    def distributed(self) -> bool:
        return self.processes + self.elsewhere > 1 or self.elsewhere > 0


ONE = Crowd()
"""One process, here."""
