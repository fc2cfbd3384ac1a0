"""What docs/performance.md says of the articles is what their data file says, and no more."""

import re

import pytest

from benchmarks import frame
from benchmarks.frame import PAGE
from benchmarks.seeds.__main__ import fields
from benchmarks.seeds.claims import CLAIMS

RESULT = frame.read("seeds")
MEASURED = [name for name in CLAIMS if name in RESULT]
CLAIMED = [claim for name in MEASURED for claim in CLAIMS[name](RESULT[name]["found"])]
SECTION = frame.section("seeds")
TABLES = SECTION.partition("### The model out of the web worker")[2]
SPREAD = re.compile(r"([\d,.]+) \(([\d,.]+) to ([\d,.]+)\)")
RATIO = re.compile(r"\d+\.\d\dx \(\d+\.\d\d to \d+\.\d\d\)")
COUNTS = re.compile(r"at least \d+ against \d+")


def claim_rows() -> list[list[str]]:
    lines = [line for line in SECTION.splitlines() if line.startswith(("| S", "| ours | "))]
    return [line[2:-2].split(" | ") for line in lines if line.count(" | ") == 5]


def test_the_page_is_what_its_data_file_gives() -> None:
    assert SECTION in PAGE.read_text(encoding="utf-8")


def test_the_same_data_gives_the_same_bytes() -> None:
    assert frame.section("seeds") == SECTION


def test_every_claim_is_a_row_of_the_page() -> None:
    assert len(claim_rows()) == len(CLAIMED)


def test_no_ratio_is_without_its_interval() -> None:
    bare = [
        row[3] for row in claim_rows() if not (RATIO.fullmatch(row[3]) or COUNTS.fullmatch(row[3]))
    ]
    assert bare == []


def test_no_table_of_an_experiment_states_a_ratio() -> None:
    assert re.findall(r"\d+(?:\.\d+)?x\b", TABLES) == []


def test_every_median_lies_between_its_smallest_and_its_largest() -> None:
    spreads = [
        [float(number.replace(",", "")) for number in found] for found in SPREAD.findall(TABLES)
    ]
    assert [one for one in spreads if not one[1] <= one[0] <= one[2]] == []


@pytest.mark.parametrize("verdict", ["did not show", "the other way round", "undecided"])
def test_every_effect_that_did_not_show_is_published(verdict: str) -> None:
    unshown = [claim for claim in CLAIMED if claim.verdict == verdict]
    assert [row[5] for row in claim_rows()].count(verdict) == len(unshown) > 0


def test_the_page_says_which_model_server_was_measured_and_on_which_machine() -> None:
    for name in MEASURED:
        one = RESULT[name]
        row = next(line for line in SECTION.splitlines() if line.startswith(f"| {name} |"))
        assert (one["model_server"] in row, one["machine"]["processor"] in row) == (True, True)


def test_numbers_of_several_runs_are_said_to_be() -> None:
    name = MEASURED[0]
    other = next(one for one in CLAIMS if one != name)
    mixed = {
        name: RESULT[name],
        other: RESULT[name] | {"run": "another", "found": RESULT[other]["found"]},
    }
    assert fields(mixed)["mixed"].startswith("Measured in several runs")


def test_what_was_not_measured_is_named() -> None:
    assert fields({})["baseline"] == ["Not measured here yet."]
