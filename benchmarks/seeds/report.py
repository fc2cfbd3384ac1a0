"""The articles' part of docs/performance.md, from what `make bench-seeds` measured last."""

import json
from pathlib import Path
from typing import Any

from benchmarks.seeds import tables
from benchmarks.seeds.claims import claims

RESULT = Path(__file__).parent / "result.json"


def section() -> str:
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    return "\n".join([*_how(result), *_experiments(result), *_claims(result), ""])


def _how(result: dict[str, Any]) -> list[str]:
    machine = result["machine"]
    return [
        "## The articles, side by side",
        "",
        "Generated from `benchmarks/seeds/result.json`; measured by `make bench-seeds`, both sides in",
        "one run. Medians, with the smallest and largest of the repeats. Ratios are of the same",
        f"repeat, with an interval of 95 %. The model server is {result['model_server']}: TensorFlow's",
        "runtime behind interfaces in Python, so what JSON costs inside it is not what TensorFlow",
        "Serving's C++ takes, and comparisons of REST and gRPC for small bodies say nothing of it.",
        "",
        f"Machine: {machine['cores']} cores, {machine['processor']}, Python {machine['python']}; "
        f"load average {machine['load_before']} before the run; {machine['date']}.",
        "",
    ]


def _experiments(result: dict[str, Any]) -> list[str]:
    baseline = result["baseline"]
    shown: list[tuple[str, str, str, list[str]]] = [
        (
            "baseline",
            "The model out of the web worker (S0, S1)",
            "A Keras network of two dense layers. Flask loads it into every worker, behind Gunicorn; ours is "
            "the endpoint on this machine with our handler. The answers to the same rows differ by at most "
            f"{baseline['largest_difference']:.0e}. Most of what `model.predict` takes is Keras itself; the "
            "direct call leaves that out.",
            tables.baseline(baseline),
        ),
        (
            "memory",
            "Memory as the model grows (S1)",
            "Proportional set size of all processes, after some requests.",
            tables.memory(baseline["memory"]),
        ),
        (
            "transport",
            "Body and transport (S0, S4)",
            "From the client's call with an array until it has the decoded answer; rows of 256 float32, "
            "about 2 KB, 200 KB and 4 MB as JSON.",
            tables.transport(result["transport"]),
        ),
        (
            "settings",
            "Settings as a tuple (S2)",
            "The article's ml.c5.9xlarge has 36 cores; here every 36 is this machine's number of cores, and "
            "a caller more than they can serve at once.",
            tables.settings(result["settings"]),
        ),
        (
            "swapping",
            "Several models, and the way back (S3)",
            "Multi-model mode, two callers, one row each.",
            tables.swapping(result["swapping"]),
        ),
        (
            "splitting",
            "Splitting a batch (S4)",
            "On the endpoint, and on simulated cores: a server that waits 0.3 ms for each row and computes "
            "nothing.",
            tables.splitting(result["splitting"]),
        ),
    ]
    lines = []
    for name, title, words, table in shown:
        picture = f"![{title}](performance/{name}.png)"
        lines += [f"### {title}", "", words, "", *table, "", picture, ""]
    return lines


def _claims(result: dict[str, Any]) -> list[str]:
    found = claims(result)
    missing = [
        f"- {one.source}: {one.here}: {one.found}" for one in found if one.verdict != "shows"
    ]
    return [
        "### What the articles say, and what was found",
        "",
        "| | article | here | ratio | |",
        "|---|---|---|---:|---|",
        *(one.row() for one in found),
        "",
        "What did not show on this machine:",
        "",
        *(missing or ["- nothing: every effect above showed."]),
    ]
