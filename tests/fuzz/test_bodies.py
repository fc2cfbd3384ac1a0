"""Bodies of every content type through the handler: read as their references do, or 4xx; at what cost."""

import itertools
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from servable_tensors.codecs import NPY, NPZ, PROTOBUF
from tests.checkouts import ROOT, succeed_in
from tests.fuzz.body_checks import REFUSALS, Checked
from tests.fuzz.body_generator import CONTENT_TYPES, bodies

FEW, MANY = 1_000, 40_000
# At most 1 s on a quiet machine, by `python -m tests.fuzz.worst_bodies`; here other tests run beside.
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


def dear(costs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        cost
        for cost in costs
        if cost["status"] not in {200, *REFUSALS}
        or cost["cpu_seconds"] > GENEROUS_CPU_SECONDS
        or cost["peak_mib"] > most_mib(cost)
    ]


def ran(module: str, *words: str) -> str:
    command = (sys.executable, "-m", f"tests.fuzz.{module}", *words)
    return succeed_in(ROOT, *command, timeout_seconds=600).stdout


@pytest.mark.long
@pytest.mark.timeout(300)
def test_no_body_of_a_megabyte_takes_many_seconds_or_more_memory_than_is_stated() -> None:
    assert dear([json.loads(line) for line in ran("worst_bodies").splitlines()]) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_of_many_bodies_none_is_read_otherwise_than_by_tensorflow() -> None:
    pytest.importorskip("tensorflow")
    assert json.loads(ran("run", "bodies", str(MANY), "3"))["by_tensorflow"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_of_many_damaged_bodies_none_is_a_5xx_or_stays_in_memory() -> None:
    ran("run", "memory", str(3 * MANY), "1")


@pytest.mark.long
def test_of_many_damaged_answers_none_is_read_otherwise_than_by_the_reference() -> None:
    ran("run", "answers", str(MANY), "2")
