"""What the page says of load generators is of runs that met the same server."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import frame
from benchmarks.load import __main__ as report
from benchmarks.load.null_server import Delays

TIMES = {"rps": 100.0, "p50_ms": 10.0, "p99_ms": 44.0, "cpu_share": 1.0, "cpu_ms_per_request": 1.0}
LATE = {"send_lag_p50_ms": 0.5, "send_lag_p99_ms": 1.0}


def run(generator: str, server: str, loop: str, **more: Any) -> dict[str, Any]:
    known = {"known": {"answered": 10, "p50_ms": 10.0, "p99_ms": 40.0}} if server == "known" else {}
    about = {"generator": generator, "server": server, "loop": loop, "errors": {}}
    return about | {"sent": 10, "failed": 0} | TIMES | LATE | known | more


def page_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *more: dict[str, Any]) -> str:
    """Two rounds of ours and Locust's."""
    runs = [
        run(generator, server, loop)
        for generator in (report.OURS, report.LOCUST)
        for server in ("null", "known")
        for loop in ("closed", "open")
    ]
    result = frame.read("load") | {
        "runs": [*runs, *more],
        "rates": {"null": 1500.0, "known": 400.0},
        "locust_users": 64,
        "median_ms": 10.0,
        "sigma": 0.6,
        "version": "2.0",
    }
    file = tmp_path / "result.json"
    file.write_text(json.dumps(result), encoding="utf-8")
    template = frame.result_file("load").with_name("page.md")
    (tmp_path / "page.md").write_bytes(template.read_bytes())
    monkeypatch.setattr(frame, "result_file", lambda name: file)
    return frame.section("load")


def test_every_generator_meets_the_same_delays() -> None:
    delays = Delays(10.0, 0.6)
    first = [delays.next() for _ in range(2000)]
    delays.start()
    assert [delays.next() for _ in range(2000)] == first


def test_a_ratio_is_of_the_same_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    second = [
        run(generator, "null", "closed", rps=rps)
        for generator, rps in ((report.OURS, 1000.0), (report.LOCUST, 500.0))
    ]
    assert "| 1.5 (1 to 2) |" in page_of(tmp_path, monkeypatch, *second)


def test_an_error_is_of_what_the_server_wrote_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "| Locust 2.0 | +0.0 % | +10.0 % |" in page_of(tmp_path, monkeypatch)
