"""The articles' part of docs/performance.md, from what `make bench-seeds` measured last.

For each experiment a title, a few words, a table and a picture; before them every claim.
"""

from benchmarks.report import row
from benchmarks.seeds.claims import CLAIMS, SHOWS
from benchmarks.seeds.parts import PARTS
from benchmarks.seeds.results import RESULT, Result, read

__all__ = ["RESULT", "section"]


def section() -> str:
    return "\n".join(lines(read()))


def lines(result: Result) -> list[str]:
    return [*_how(), *_runs(result), *_claims(result), *_experiments(result)]


def _how() -> list[str]:
    return [
        "## The articles, side by side",
        "",
        "Generated from `benchmarks/seeds/result.json`; measured by `make bench-seeds`, both sides of an",
        "experiment in one go. Medians, with the smallest and largest of the repeats. Ratios are of the",
        "same repeat, with an interval of 95 %. The local container's model server is TensorFlow's runtime",
        "behind interfaces in Python, so what JSON costs inside it is not what TensorFlow Serving's C++",
        "takes, and comparisons of REST and gRPC for small bodies say nothing of it.",
        "",
        "What few cores cannot show: what more workers and model servers than these would bring (S1, S2),",
        "parts of a batch computed side by side (S4), and GPUs (S0). For S2 and S4 a simulator stands beside",
        "the measurement, labelled so; GPUs are not here.",
        "",
    ]


def _runs(result: Result) -> list[str]:
    rows = [
        row(
            *(name, one["run"], str(one["seconds"]), one["model_server"]),
            f"{one['machine']['cores']} cores, {one['machine']['processor']}",
            *(str(one["machine"]["load_before"]), one["machine"]["python"]),
        )
        for name, one in result.items()
    ]
    table = [
        "| | run | seconds | model server | computer | load average before | Python |",
        "|---|---|---:|---|---|---:|---|",
        *rows,
        "",
    ]
    mixed, missing = [], [name for name in CLAIMS if name not in result]
    if len({one["run"] for one in result.values()}) > 1:
        mixed = ["Measured in several runs; no number is compared with one of another run.", ""]
    if missing:
        mixed += [f"Not measured here yet: {', '.join(missing)}.", ""]
    return [*table, *mixed]


def _experiments(result: Result) -> list[str]:
    found = []
    for name, parts in PARTS.items():
        for picture, part in parts.items() if name in result else ():
            shown = f"![{part.title}](performance/{picture}.png)"
            lines = part.lines(result[name]["found"])
            found += [f"### {part.title}", "", part.words, "", *lines, "", shown, ""]
    return found


def _claims(result: Result) -> list[str]:
    found = [
        claim
        for name, claims in CLAIMS.items()
        if name in result
        for claim in claims(result[name]["found"])
    ]
    missing = [claim.missing() for claim in found if claim.verdict != SHOWS]
    return [
        "### What the articles say, and what was found",
        "",
        "A claim shows where the whole interval of its ratio is where it is wanted, and is undecided where",
        "only a part of it is.",
        "",
        "| | article | here | ratio | wanted | |",
        "|---|---|---|---:|---|---|",
        *(claim.row() for claim in found),
        "",
        "What did not show on this computer:",
        "",
        *(missing or ["- nothing: every effect above showed."]),
        "",
    ]
