"""Measure how often verdicts are wrong, and write the table of docs/verdicts.md.

    python -m benchmarks.verdicts [--seed N] [load | queue | tune | replay | rehearse]...

Without a seed, a new one is drawn, so that nobody has seen its cases. The results of the verdicts
that aren't measured are kept.
"""

import argparse
import json
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping

from benchmarks.frame import RESULTS, ROOT, create_timed_log, format_row
from tests.verdicts import load_gate, rehearse, replay_gate, steady_queue, tune

PAGE, FILE = ROOT / "docs" / "verdicts.md", RESULTS / "verdicts.json"
HEAD = ("verdict", "case", "cases", "passes", "fails", "inconclusive", "wrong")


# A kind of case, whether it should pass (None if either verdict can be right), and the verdicts on it.
Trials = Iterable[tuple[str, bool | None, list[str]]]
# The trials, and how many: runs of each case or busy queue, searches, replays, or days.
MEASURES: Mapping[str, tuple[Callable[[int, int], Trials], int]] = {
    "load": (load_gate.run_trials, 500),
    "queue": (steady_queue.run_trials, 400),
    "tune": (tune.run_trials, 15),
    "replay": (replay_gate.run_trials, 40),
    "rehearse": (rehearse.run_trials, 60),
}
PASS = ("met", "better", "falsely better", "holds")
FAIL = ("NOT met", "not better", "does not hold")


def count_verdicts(passes: bool | None, verdicts: list[str]) -> list[int]:
    """Count the verdicts: all, passing, failing, inconclusive, and wrong ones."""
    passed, failed = (sum(each in words for each in verdicts) for words in (PASS, FAIL))
    wrong = {True: failed, False: passed, None: verdicts.count("falsely better")}[passes]
    return [len(verdicts), passed, failed, len(verdicts) - passed - failed, wrong]


def write_table() -> None:
    """Write the table between the page's heading of rates and its next heading."""
    results = json.loads(FILE.read_text(encoding="utf-8"))
    lines = [format_row(*HEAD), "|---|---|---:|---:|---:|---:|---:|"]
    for name, result in results.items():
        for case, counts in result["cases"].items():
            lines.append(format_row(name, case, *(f"{count:,}" for count in counts)))
    # Results of an earlier version have no seed: this one draws other cases from it.
    runs = [
        f"{name} on {result['date']}" + (f" (`--seed {result['seed']}`)" if result["seed"] else "")
        for name, result in results.items()
    ]
    lines += ["", f"Measured by `make bench-verdicts`: {', '.join(runs)}.", ""]
    text = PAGE.read_text(encoding="utf-8")
    table = re.compile(r"^\|verdict\|case\|.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    PAGE.write_text(table.sub(lambda _: "\n".join(lines) + "\n", text), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9))
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(MEASURES)}")
    given, log = parser.parse_args(), create_timed_log()
    results = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for name in given.names or MEASURES:
        log(name)
        run_trials, count = MEASURES[name]
        trials = run_trials(given.seed, count)
        cases = {case: count_verdicts(passes, verdicts) for case, passes, verdicts in trials}
        results[name] = {"seed": given.seed, "date": time.strftime("%Y-%m-%d"), "cases": cases}
        FILE.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write_table()
