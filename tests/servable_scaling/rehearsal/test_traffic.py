"""The requests of a day: profiles, random days, and files of them."""

import math
import statistics
from pathlib import Path

import pytest

from servable_scaling.rehearsal import ProfileName
from servable_scaling.rehearsal.traffic import (
    TrafficError,
    build_profile,
    fill_minutes,
    generate_random_day,
    read_traffic,
)

PROFILES: dict[ProfileName, dict[int, float]] = {
    "spike": {719: 1, 720: 11, 734: 11, 735: 1},
    "daily": {180: 1, 540: 6, 900: 11, 1260: 6},
    "ramp": {0: 1, 480: 1, 528: 2, 720: 6, 960: 11, 1439: 11},
    "launch": {539: 1, 540: 11, 660: 6, 780: 3.5},
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_goes_from_its_base_to_its_peak(name: ProfileName) -> None:
    requests = build_profile(name, peak_rps=11, base_rps=1)
    assert len(requests) == 1440
    found = {minute: requests[minute] / 60 for minute in PROFILES[name]}
    assert found == pytest.approx(PROFILES[name])


def test_random_days_differ_by_a_tenth_and_come_up_to_half_an_hour_earlier_or_later() -> None:
    days = (generate_random_day([100.0] * 41, seed) for seed in range(600))
    flat = [[math.log(one / 100) for one in day] for day in days]
    for minute in (0, 40):
        spread = statistics.pstdev(day[minute] for day in flat)
        assert spread == pytest.approx(math.hypot(0.1, 0.05), rel=0.06)
    for apart in [1, 10]:
        steps = [day[at + apart] - day[at] for day in flat for at in range(41 - apart)]
        expected = 0.05 * math.sqrt(2 * (1 - math.exp(-apart / 10)))
        assert statistics.pstdev(steps) == pytest.approx(expected, rel=0.03)
    assert generate_random_day([1.0, 2.0, 3.0], 5) == generate_random_day([1.0, 2.0, 3.0], 5)

    peak = [1e-9] * 31 + [1.0] + [1e-9] * 31
    days = [generate_random_day(peak, seed) for seed in range(400)]
    at = {day.index(max(day)) - 31 for day in days}
    assert (min(at), max(at), 0 in at) == (-30, 30, True)


def read(folder: Path, text: str) -> list[float]:
    file = folder / "traffic.csv"
    file.write_text(text, encoding="utf-8")
    return read_traffic(file, "traffic.csv")


def test_a_file_gives_each_minute_of_at_most_a_week_its_requests(tmp_path: Path) -> None:
    for text, requests in [
        ("0,5\n1,6.5\n", [5, 6.5]),
        ("minute,requests\n0,5\n", [5]),
        ("\ufeff Minute ,requests\n0,5\n", [5]),
        ("2,5\n\n4,0\n", [0, 0, 5, 0, 0]),
        ("0,5,a note\n", [5]),
    ]:
        assert read(tmp_path, text) == requests
    assert len(read(tmp_path, "10079,1\n")) == 7 * 24 * 60
    assert fill_minutes({1: 2.0, 3: 4.0}) == [0, 2.0, 0, 4.0]


def test_a_line_that_is_no_minute_is_named(tmp_path: Path) -> None:
    for text, problem in [
        ("0,5\n10080,1\n", "traffic.csv:2: 10080,1 isn't a minute with its requests"),
        ("-1,5\n", "traffic.csv:1: -1,5 isn't a minute"),
        ("0,-1\n", "traffic.csv:1: 0,-1 isn't a minute"),
        ("0,inf\n", "traffic.csv:1: 0,inf isn't a minute"),
        ("0,nan\n", "traffic.csv:1: 0,nan isn't a minute"),
        ("0\n", "traffic.csv:1: 0 isn't a minute"),
        ("noon,5\n", "traffic.csv:1: noon,5 isn't a minute"),
        ("0,5\nminute,requests\n", "traffic.csv:2: minute,requests isn't a minute"),
        ("1,5\n1,6\n",
         "traffic.csv:2: minute 1 comes after minute 1; each minute must appear once"),
        ("3,5\n2,6\n", "traffic.csv:2: minute 2 comes after minute 3"),
        ("", "traffic.csv: the file is empty; write minute,requests, such as 0,1200"),
        ("minute,requests\n", "traffic.csv: the file is empty"),
    ]:  # fmt: skip
        with pytest.raises(TrafficError) as raised:
            read(tmp_path, text)
        assert str(raised.value).startswith(problem)

    with pytest.raises(TrafficError, match="a minute of 0 to 10079, a comma, and 0 or more"):
        read(tmp_path, "x\n")

    file = tmp_path / "absent.csv"
    with pytest.raises(TrafficError) as raised:
        read_traffic(file)
    assert str(raised.value) == f"cannot read {file}: No such file or directory"


# As the console writes it: rows of words, then a row for each period; the newest may come first.
CONSOLE = """\
Full label,"Invocations"
Label,"Invocations"
Period,"60"
Statistic,"Sum"
"2026/11/20 00:03:00","240"
"2026/11/20 00:01:00","120"
"""


def test_cloudwatchs_own_file_is_read_by_its_period_and_no_other_is(tmp_path: Path) -> None:
    assert read(tmp_path, CONSOLE) == [0, 120, 0, 240]
    text = CONSOLE.replace('"60"', '"300"').replace("00:03", "00:06")
    assert read(tmp_path, text) == [0] + [24] * 5 + [48] * 5
    text = (
        "Label,InvocationsPerInstance,Invocations\n2026-11-20T00:00:00.000Z,30,60\n"
        "2026-11-20T00:01:00.000Z,40,80\n"
    )
    assert read(tmp_path, text) == [60, 80]
    for text, said in [
        (CONSOLE.replace("Sum", "Average"), "its statistic is Average; allowed: Sum"),
        ("Label,a,b\n2026-11-20 00:00:00,1,2\n", "it has 2 metrics; allowed: only Invocations"),
        ("2026-11-20 00:00:00,many\n", "many at 2026-11-20 00:00 isn't a number"),
        ("2026-11-20 00:00:00,1\n2026-12-20 00:00:00,1\n", "has 31 days; allowed: at most 7"),
    ]:
        with pytest.raises(TrafficError, match=said):
            read(tmp_path, text)
