"""What the page claims of S0 and S1, computed from the baseline's rows."""

from functools import partial
from typing import Any

from benchmarks.ratio import ratio
from benchmarks.seeds.claim import CORES, Claim, Counts
from benchmarks.seeds.rows import middle, values

# 40 % lower is 1 / (1 - 0.4) times as much on the other side.
FORTY_PERCENT = 1 / 0.6


def baseline(found: dict[str, Any]) -> list[Claim]:
    cpu = partial(values, found["requests"], "cpu_ms")
    latency = partial(values, found["requests"], "latency_ms", rows=1)
    rate = partial(values, found["throughput"], "requests_per_second")
    ours, call, predict = "ours, JSON", "Flask, model.call", "Flask, model.predict"
    time, more = "5 s to 3 s: 40 % less, 1.7x", "2 to 12 requests/s: 6x"
    hops = (
        "A small request passes a front, a worker and a model server; Flask computes where it is."
    )
    wall, memory = found["memory"]["flask_wall"], found["memory"]
    fits = max((row["workers"] for row in wall if row["memory_mb"] <= memory["wall_mb"]), default=0)
    twelve = memory["ours_at_twelve"]
    beside = twelve["workers"] if twelve["memory_mb"] <= memory["wall_mb"] else 0
    return [
        Claim("S0", time, "latency, 1 row, Flask with model.predict against ours",
              ratio(latency(way=predict), latency(way=ours))),
        Claim("S0", time, "latency, 1 row, Flask with the direct call against ours",
              ratio(latency(way=call), latency(way=ours)), differs=hops),
        *(
            Claim("S0", "40 % less", f"CPU per request, {rows} {'row' if rows == 1 else 'rows'}, "
                  f"{flask} against {way}",
                  ratio(cpu(way=flask, rows=rows), cpu(way=way, rows=rows)),
                  at_least=FORTY_PERCENT, differs=_why(found["requests"], flask, way, rows))
            for rows in (1, 111)
            for flask, way in ((call, ours), (f"{call}, npy", "ours, npy"), (call, "ours, npy"))
        ),
        *(
            Claim("S1", more, f"requests/s, {workers} worker{'s' if workers > 1 else ''}, "
                  "ours against the direct call",
                  ratio(rate(way=ours, workers=workers), rate(way=call, workers=workers)),
                  differs=CORES)
            for workers in (1, 4)
        ),
        Claim("S1", "1 worker to 12", f"workers in {memory['wall_mb']:,} MB with the largest model, "
              "ours against Flask", Counts(beside, fits, at_least=True)),
    ]  # fmt: skip


def _why(rows: list[dict[str, Any]], flask: str, way: str, count: int) -> str:
    theirs = middle(rows, "cpu_ms", way=flask, rows=count)
    ours = middle(rows, "cpu_ms", way=way, rows=count)
    server = middle(rows, "model_server_ms", way=way, rows=count)
    less = f"{abs(1 - ours / theirs):.0%} {'lower' if ours < theirs else 'higher'}"
    said = f"{ours:.2f} CPU-ms against {theirs:.2f}, {less}. Of ours the model server takes {server:.2f}"
    if "JSON" not in way:
        return f"{said}, what stands before it the rest."
    npy = middle(rows, "cpu_ms", way="ours, npy", rows=count)
    return (
        f"{said}: it reads and writes the text again, and the double's does so in Python. "
        f"With npy, which is not text, all of ours is {npy:.2f}."
    )
