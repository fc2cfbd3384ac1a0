"""A recommendation in the file: valid, with its comments, and only where it says so."""

import tomllib
from pathlib import Path

import pytest

from servable.tune.environment_edit import KeyChange, diff, edited

ROOT = Path(__file__).resolve().parents[3]
FILES = sorted((ROOT / "environments").glob("*.toml"))
NOTE = "measured 2026-11-21, servable tune"
TEXT = """\
# the file's own words
[variants.primary.container]
tfs_processes    = 4   # one for each four vCPUs
gunicorn_workers = 16
batching         = { max_batch_size = 512, timeout_micros = 1000 }   # 500 candidates

[alarms]
p99_latency_ms = 100
"""


def change(key: str, value: object) -> KeyChange:
    return KeyChange(key=tuple(key.split(".")), value=value, reason="")


CHANGES = [
    change("variants.primary.container.tfs_processes", 8),
    change("variants.primary.container.onednn", False),
    change("variants.primary.container.batching.timeout_micros", 0),
    change("variants.primary.scaling.max_rps_per_instance", 98.5),
]


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_every_environment_file_says_what_was_recommended(file: Path) -> None:
    after = tomllib.loads(edited(file.read_text(encoding="utf-8"), CHANGES, note=NOTE))
    variant = after["variants"]["primary"]
    assert (
        variant["container"]["tfs_processes"],
        variant["container"]["onednn"],
        variant["container"]["batching"]["timeout_micros"],
        variant["scaling"]["max_rps_per_instance"],
    ) == (8, False, 0, 98.5)


def test_comments_stay_and_only_what_is_recommended_changes() -> None:
    for comment in ["# the file's own words", "# one for each four vCPUs", "# 500 candidates"]:
        assert comment in edited(TEXT, CHANGES, note=NOTE)
    line = next(one for one in edited(TEXT, CHANGES, note=NOTE).splitlines() if "max_rps" in one)
    assert line.endswith(f"# {NOTE}")

    after = edited(TEXT, CHANGES[:1], note=NOTE).splitlines()
    kept = [one for one in TEXT.splitlines() if "tfs_processes" not in one]
    assert [one for one in after if "tfs_processes" not in one] == kept


def test_a_value_that_is_there_already_changes_nothing() -> None:
    same = [change("variants.primary.container.tfs_processes", 4)]
    assert edited(TEXT, same, note=NOTE) == TEXT
    once = edited(TEXT, CHANGES, note=NOTE)
    assert edited(once, CHANGES, note=NOTE) == once


def test_the_diff_names_the_file() -> None:
    assert diff("environments/prod.toml", "a\n", "b\n").startswith("--- environments/prod.toml")
