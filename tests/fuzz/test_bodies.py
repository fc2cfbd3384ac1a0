"""Bodies of every content type through the handler: read as their references do, or 4xx; at what cost."""

import itertools
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from servable_tensors.codecs import NPY, NPZ, PROTOBUF
from tests.fuzz.body_checks import REFUSALS, Checked
from tests.fuzz.body_generator import CONTENT_TYPES, bodies

ROOT = Path(__file__).resolve().parents[2]
FEW, MANY = 1_000, 40_000
# At most 1 s on a quiet machine, by `python -m tests.fuzz.costs`; here other tests run beside.
GENEROUS_CPU_SECONDS = 5.0
# docs/serving.md states these.
MOST_TEXT_FACTOR = 80
MOST_NPZ_MIB = 320


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("content_type", CONTENT_TYPES)
def test_a_body_is_sent_on_as_its_reference_reads_it_or_is_refused(content_type: str) -> None:
    with Checked(1) as checked:
        for body in itertools.islice(bodies(content_type, 1), FEW):
            checked.check(body)
    assert checked.wrong == []
    kinds = {kind.removeprefix(content_type).strip() for kind in checked.counts}
    assert {"refused 400", "sent on 200", "sent on 400"} <= kinds


def most_mib(cost: dict[str, Any]) -> float:
    body_mib = cost["bytes"] / 1024**2
    if cost["content_type"] in (NPY, PROTOBUF):
        # Over REST tensors become text.
        return float(64 + (20 if cost["transport"] == "rest" else 4) * body_mib)
    if cost["content_type"] == NPZ:
        return float(MOST_NPZ_MIB + body_mib)
    return float(8 + MOST_TEXT_FACTOR * body_mib)


def dear(found: list[dict[str, Any]], most_cpu_seconds: float) -> list[dict[str, Any]]:
    return [
        cost
        for cost in found
        if cost["status"] not in {200, *REFUSALS}
        or cost["cpu_seconds"] > most_cpu_seconds
        or cost["peak_mib"] > most_mib(cost)
    ]


# Those that were dearest, or dear before they were limited.
DEAREST = ["1,030 bytes", "string for all", "pieces of one", "unknown fields", "one letter in"]


def test_the_dearest_bodies_of_a_megabyte_take_a_bounded_time_and_memory() -> None:
    command = [sys.executable, "-m", "tests.fuzz.costs", *DEAREST]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=100)
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert len(found) == 4 * len(DEAREST)
    assert dear(found, GENEROUS_CPU_SECONDS) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_no_body_of_a_megabyte_takes_many_seconds_or_more_memory_than_is_stated() -> None:
    command = [sys.executable, "-m", "tests.fuzz.costs"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, timeout=280)
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert dear(found, GENEROUS_CPU_SECONDS) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_of_many_bodies_none_is_read_otherwise_than_by_tensorflow() -> None:
    pytest.importorskip("tensorflow")
    command = [sys.executable, "-m", "tests.fuzz.run", "bodies", str(MANY), "3"]
    ran = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=280, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr[-500:]
    assert json.loads(ran.stdout)["by_tensorflow"]
