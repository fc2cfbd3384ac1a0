"""What docs/performance.md says of the articles is what their data file says, and no more."""

import re
import struct
from pathlib import Path

import pytest

from benchmarks.page import PAGE
from benchmarks.seeds import report
from benchmarks.seeds.claims import CLAIMS, SHOWS
from benchmarks.seeds.parts import PARTS
from benchmarks.seeds.results import read

RESULT = read()
MEASURED = [name for name in CLAIMS if name in RESULT]
CLAIMED = [claim for name in MEASURED for claim in CLAIMS[name](RESULT[name]["found"])]
SECTION = "\n".join(report.lines(RESULT))
TABLES = "\n".join(report._experiments(RESULT))
SAID, LISTED = "\n".join(report._claims(RESULT)).split("What did not show on this computer:")
SPREAD = re.compile(r"([\d,.]+) \(([\d,.]+) to ([\d,.]+)\)")
RATIO = re.compile(r"\d+\.\d\dx \(\d+\.\d\d to \d+\.\d\d\)")
COUNTS = re.compile(r"at least \d+ against \d+")


def claim_rows() -> list[list[str]]:
    lines = [line for line in SAID.splitlines() if line.startswith(("| S", "| ours"))]
    return [line[2:-2].split(" | ") for line in lines]


def test_the_page_is_what_its_data_file_gives() -> None:
    assert SECTION in PAGE.read_text(encoding="utf-8")


def test_the_same_data_gives_the_same_bytes() -> None:
    assert "\n".join(report.lines(read())) == SECTION


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


def test_every_effect_that_did_not_show_is_listed() -> None:
    unshown = [claim for claim in CLAIMED if claim.verdict != SHOWS]
    assert LISTED.count("\n- ") == max(1, len(unshown))
    assert [claim for claim in unshown if claim.here not in LISTED] == []


def test_a_claim_that_shows_is_not_listed_as_missing() -> None:
    assert [one for one in CLAIMED if one.verdict == SHOWS and f"{one.here}: " in LISTED] == []


def test_the_page_says_which_model_server_was_measured_and_on_which_machine() -> None:
    for name in MEASURED:
        one = RESULT[name]
        row = next(line for line in SECTION.splitlines() if line.startswith(f"| {name} |"))
        assert (one["model_server"] in row, one["machine"]["processor"] in row) == (True, True)


@pytest.mark.parametrize("name", CLAIMS)
def test_each_part_has_a_picture_of_1200_pixels_where_it_was_measured(name: str) -> None:
    folder = Path(PAGE).parent / "performance"
    pictures = [folder / f"{picture}.png" for picture in PARTS[name]]
    if name not in RESULT:
        assert not any(picture.exists() for picture in pictures)
        return
    # The width is the first number of a PNG's first chunk.
    assert [struct.unpack(">I", one.read_bytes()[16:20])[0] for one in pictures] == [1200] * len(
        pictures
    )


def test_numbers_of_several_runs_are_said_to_be() -> None:
    name = MEASURED[0]
    other = next(one for one in CLAIMS if one != name)
    mixed = {name: RESULT[name], other: RESULT[name] | {"run": "another"}}
    found = report._runs(mixed)
    assert any(line.startswith("Measured in several runs") for line in found)


def test_what_was_not_measured_is_named() -> None:
    assert any(line.startswith("Not measured here yet: baseline") for line in report._runs({}))
