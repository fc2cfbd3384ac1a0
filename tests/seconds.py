"""Where the tests' time goes, by folder: what make test and make test-long run, with `-p tests.seconds`.

Seconds of a processor, which other work on the computer changes little. "Started" are those of the
processes that tests start; those that tests share are counted when they end, in a row of their own.
"""

import resource
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

SHARED = "processes that live until the end"
TESTS, SELF, STARTED = "tests", "tests themselves", "started"
_rows: dict[str, Counter[str]] = {}


def _now() -> tuple[float, float]:
    """Processor seconds of this process, and of its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    own, children = (one.ru_utime + one.ru_stime for one in used)
    return own, children


def _add(row: str, **counts: float) -> None:
    _rows.setdefault(row, Counter()).update(counts)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    before = _now()
    result = yield
    _add("imports and collection", **{SELF: _now()[0] - before[0]})
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, Any, Any]:
    before = _now()
    result = yield
    own, children = (after - at for after, at in zip(_now(), before, strict=True))
    folder = item.path.parent.relative_to(item.config.rootpath).as_posix()
    _add(folder, **{TESTS: 1, SELF: own})
    _add(SHARED if nextitem is None else folder, **{STARTED: children})
    return result


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["seconds"] = {name: dict(row) for name, row in _rows.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for name, counts in getattr(node, "workeroutput", {}).get("seconds", {}).items():
        _add(name, **counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    total: Counter[str] = Counter()
    if terminalreporter.config.getoption("numprocesses", None):
        _add("pytest, which gives the tests to its workers", **{SELF: _now()[0]})
    rows = sorted(_rows.items(), key=lambda row: -row[1][SELF] - row[1][STARTED])
    head = "| where | tests | seconds | of them in processes that are started |"
    lines = [head, "|---|---|---|---|"]
    for _, counts in rows:
        total.update(counts)
    for name, one in [*rows, ("all", total)]:
        seconds = one[SELF] + one[STARTED]
        lines.append(f"| {name} | {one[TESTS]} | {seconds:.0f} | {one[STARTED]:.0f} |")
    terminalreporter.section("processor seconds")
    terminalreporter.write_line("\n".join(lines))
