"""What the pages on the search and on tune say of what was measured."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import frame
from benchmarks.tune import __main__ as planting


def runs(share: float) -> dict[str, list[Any]]:
    return {
        "share_of_best": [share] * 20,
        "measurements": [40] * 20,
        "better": [False] * 20,
    }


def searched(folder: Path, *, plateaus: float) -> Path:
    others = {name: [value[0]] * 10 for name, value in runs(0.9).items()}
    by_noise = {noise: {"ours": runs(plateaus), "forest": {**others}} for noise in ("0.05", "0.15")}
    flat = {noise: {"ours": runs(1.0)} for noise in ("0.05", "0.15")}
    result = {
        "date": "2026-01-02",
        "seeds": [2026010200, 2026010219],
        "budget_trials": 40,
        "points": {"random plateaus": 720},
        "runs": {"random plateaus": by_noise, "flat": flat},
    }
    return placed(folder, "search", result)


def placed(folder: Path, name: str, result: dict[str, Any]) -> Path:
    """Write a result file, with the benchmark's own page beside it."""
    template = frame.result_file(name).with_name("page.md")
    (folder / "page.md").write_bytes(template.read_bytes())
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder / "result.json"


@pytest.mark.parametrize(
    ("plateaus", "line"),
    [
        (0.97, "| random plateaus, 5% noise: median | 97.0% | at least 97% | met | 100 |"),
        (0.96, "| random plateaus, 5% noise: median | 96.0% | at least 97% | **not met** | 0 |"),
        (0.93, "| random plateaus, 15% noise: median | 93.0% | at least 93% | met | 100 |"),
        (0.93, "| random plateaus, 5% noise: nine in ten | 93.0% | at least 93% | met | 100 |"),
        (0.97, "| flat, 15% noise: not called better | 20 of 20 | at least 19 | met | 100 |"),
        (0.96, "| random plateaus | +6.0 (+6.0 to +6.0) | +6.0 (+6.0 to +6.0) |"),
        (0.96, "1 of 5 targets are not met."),
    ],
)
def test_a_target_is_met_or_said_to_be_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plateaus: float, line: str
) -> None:
    file = searched(tmp_path, plateaus=plateaus)
    monkeypatch.setattr(frame, "result_file", lambda name: file)
    assert line in frame.section("search")


def planted(found: int) -> dict[str, Any]:
    about = {"gain": {"value": 0.3}}
    return {
        "machine": {"cores": 2, "processor": "x", "python": "3", "load_before": 0, "date": "d"},
        "minutes": 5,
        "better": 1.3,
        "runs": [
            *({**about, "planted": {}, "found": at < found, "better": True} for at in range(10)),
            *({**about, "planted": None, "found": False, "better": False} for at in range(10)),
        ],
    }


@pytest.mark.parametrize(("found", "met"), [(9, "met"), (8, "**not met**")])
def test_nine_of_ten_planted_settings_are_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: int, met: str
) -> None:
    file = placed(tmp_path, "tune", planted(found))
    monkeypatch.setattr(frame, "result_file", lambda name: file)
    line = f"| a setting is planted: found | {found} of 10 | +30 % to +30 % | at least 9 | {met} |"
    assert line in frame.section("tune")


@pytest.mark.parametrize(("text", "times"), [("1", 1.3), ("2", 1.0)])
def test_a_planted_value_makes_the_handler_compute_less(
    monkeypatch: pytest.MonkeyPatch, text: str, times: float
) -> None:
    variable = "SAGEMAKER_TFS_INTRA_OP_PARALLELISM"
    source = planting.HANDLER.format(seconds=0.01, better=1.3, variable=variable, text="1")
    monkeypatch.setenv(variable, text)
    code: dict[str, Any] = {}
    exec(source, code)
    assert code["SECONDS"] == pytest.approx(0.01 / times)
