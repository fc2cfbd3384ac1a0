"""docs/verdicts.md: from what was measured last, and no rate that was not measured."""

import pytest

from tests.checkouts import ROOT, read
from benchmarks.verdicts.__main__ import PAGE, page

COMMANDS = [
    "check", "check --run", "load --gate", "tune", "conformance", "verify", "replay --gate", "rehearse",
    "plan", "doctor",
]  # fmt: skip
PAGES = [
    "rules",
    "conformance",
    "tuning",
    "operating",
    "replay",
    "scaling",
    "updating",
    "pipelines",
]


def test_the_page_is_what_was_measured_last() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(read("verdicts"))


def test_without_a_measurement_no_rate_is_claimed() -> None:
    rows = [line.split(" | ")[-2:] for line in page({}).splitlines() if line.startswith("| [")]
    assert {rate.split(" at ")[0].rstrip(" |") for row in rows for rate in row} == {"not measured"}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_verdict_has_a_row(command: str) -> None:
    assert f"| [`{command}`](" in page({})


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_of_the_commands_link_to_it(name: str) -> None:
    assert "(verdicts.md" in (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def test_no_planted_deviation_passed_when_they_were_tried_last() -> None:
    codes = read("verdicts")["conformance"]["measured"]["deviations"]
    assert (len(codes) >= 30, [name for name, code in codes.items() if code == 0]) == (True, [])
