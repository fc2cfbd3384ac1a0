"""What the page says about each experiment: a title, a few words, a table, a picture."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.seeds import tables


@dataclass(frozen=True)
class Part:
    picture: str
    title: str
    words: str
    table: Callable[[Any], list[str]]
    of: Callable[[Any], Any] = lambda found: found
    """What of an experiment's rows the table takes."""


PARTS: dict[str, list[Part]] = {
    "baseline": [
        Part(
            "baseline",
            "The model out of the web worker (S0, S1)",
            "A Keras network of two dense layers of 512. Flask loads it into every worker, behind "
            "Gunicorn; ours is the endpoint on this machine with our handler. Most of what "
            "`model.predict` takes is Keras itself; the direct call leaves that out.",
            tables.baseline,
        ),
        Part(
            "memory",
            "Memory as the model grows (S1)",
            "Proportional set size of all processes, after some requests; measured once.",
            tables.memory,
            lambda found: found["memory"],
        ),
    ],
    "transport": [
        Part(
            "transport",
            "Body and transport (S0, S4)",
            "From the client's call with an array until it has the decoded answer; rows of 256 "
            "float32, about 2 KB, 200 KB and 4 MB as JSON.",
            tables.transport,
        )
    ],
    "settings": [
        Part(
            "settings",
            "Settings as a tuple (S2)",
            "The article's ml.c5.9xlarge has 36 cores. Here every 36 is this machine's number of "
            "cores, and the 8 as many at most; 8 callers ask for 111 rows of npy. Beside it the "
            "article's table on a simulated machine of 36 cores: nothing is computed there.",
            tables.settings,
        )
    ],
    "swapping": [
        Part(
            "swapping",
            "Several models, and the way back (S3)",
            "Multi-model mode, two callers, one row each; the model that comes and goes has 400 MB of "
            "weights. Then two models, one caller each.",
            tables.swapping,
        )
    ],
    "splitting": [
        Part(
            "splitting",
            "Splitting a batch (S4)",
            "On the endpoint, and on simulated cores: a server that waits 0.3 ms for each row and "
            "computes nothing. The client chooses after 20 batches of learning.",
            tables.splitting,
        )
    ],
}
