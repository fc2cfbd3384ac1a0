"""Notes on captured requests: a shadow repeats those of another variant, and an hour without any."""

from pathlib import Path

from servable.replay.index import CaptureIndex, capture_notes
from servable.replay.places import LocalPlace
from tests.servable.replay.captures import NINE, request, written


def notes(folder: Path, shadows: set[str]) -> list[str]:
    return [*capture_notes(CaptureIndex(LocalPlace(folder)), shadows)]


def test_requests_of_a_shadow_variant_are_said_to_repeat_others(tmp_path: Path) -> None:
    for name, count in (("primary", 3), ("next", 2)):
        file = tmp_path / "ranker" / name / "2026" / "11" / "21" / "09" / "a.jsonl"
        written(file, *(request(number) for number in range(count)))
    counted, repeated = notes(tmp_path, {"next", "other"})
    assert counted == "captured by variant: primary 3, next 2"
    assert repeated.startswith("variant next is a shadow, so its 2 requests repeat those")


def test_only_a_gap_that_traffic_does_not_explain_is_named(tmp_path: Path) -> None:
    times = [*range(0, 300, 3), *range(3600, 3900, 3)]
    several = [request(number, time=NINE + time + 0.5) for number, time in enumerate(times)]
    written(tmp_path / "a.jsonl", *several)
    (note,) = notes(tmp_path, set())
    assert note.startswith("nothing was captured in the 55 minutes from 2026-11-21 09:04:57 UTC")

    several = [request(number, time=NINE + 900.0 * number + 0.5) for number in range(50)]
    written(tmp_path / "a.jsonl", *several)
    assert notes(tmp_path, set()) == []
