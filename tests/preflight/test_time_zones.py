"""The zone that a finding suggests for an unknown time zone has the same UTC offset, or none is suggested."""

import zoneinfo
from datetime import UTC, datetime, timedelta

from infra.preflight.scaling.schedules import load_time_zones, suggest_time_zone

NONE = "use an IANA time zone name"


def read_offsets(zone: str, year: int = 2026) -> set[timedelta | None]:
    where = zoneinfo.ZoneInfo(zone)
    return {datetime(year, month, 1, tzinfo=where).utcoffset() for month in range(1, 13)}


def read_suggestion(name: str) -> str | None:
    remedy = suggest_time_zone(name)
    return None if remedy == NONE else remedy.removeprefix("did you mean ").removesuffix("?")


def test_a_zone_is_suggested_where_one_offset_is_meant() -> None:
    for name in ("Berlin", "europe/berlin"):
        assert read_suggestion(name) == "Europe/Berlin"
    for name in (
        "Europe/Berlinn", "America/London", "utc", "CEST", "aest", "BST", "GMT+2", "Asia/Bangalore",
        "Australia/East", "",
    ):  # fmt: skip
        assert read_suggestion(name) is None


def test_no_abbreviation_gets_a_zone_with_another_offset() -> None:
    meant: dict[str, set[timedelta | None]] = {}
    for zone in load_time_zones():
        for month in range(1, 13):
            moment = datetime(2026, month, 1, tzinfo=UTC).astimezone(zoneinfo.ZoneInfo(zone))
            meant.setdefault(moment.tzname() or "", set()).add(moment.utcoffset())
    assert len(meant) > 50
    for abbreviation, offsets in meant.items():
        for name in (abbreviation, abbreviation.lower(), abbreviation.title()):
            suggestion = None if name in load_time_zones() else read_suggestion(name)
            # Of met the zone MET itself is meant, with its summer time.
            is_same = suggestion is not None and suggestion.lower() == name.lower()
            assert suggestion is None or is_same or read_offsets(suggestion) <= offsets, name
