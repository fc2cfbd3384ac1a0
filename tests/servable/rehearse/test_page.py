"""The page of a day and of a comparison: verdicts first, the minutes that matter enlarged, times as 00:00."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from infra.parameters.loading import ValidFile
from servable.measured import document
from servable.rehearse import page
from servable.rehearse.command import rehearse
from servable.rehearse.output import join_minutes
from tests.servable.rehearse.test_compare import HOUR, SPARSE


@pytest.mark.long
def test_the_page_of_a_day_starts_with_the_verdict_and_enlarges_what_matters(
    environment: Callable[..., ValidFile], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    times: list[str] = []
    drawn = document.render_png

    def draw(figure: Any) -> bytes:
        axis = figure.axes[-1].xaxis
        times.append(" ".join(axis.get_major_formatter().format_ticks(axis.get_ticklocs())))
        return drawn(figure)

    monkeypatch.setattr(document, "render_png", draw)
    monkeypatch.chdir(environment(SPARSE).root)
    day = "".join(
        f"{minute},{HOUR.count('1') if minute != 700 else 30_000}\n" for minute in range(1440)
    )
    (tmp_path / "day.csv").write_text(day)
    options = ["--day", str(tmp_path / "day.csv"), "--output", str(tmp_path / "page")]
    ran = CliRunner().invoke(rehearse, ["prod", *options])
    assert ran.exception is None, ran.output
    text = (tmp_path / "page" / "report.html").read_text()
    verdict = (
        '<strong class="verdict does-not-hold">Does not hold</strong> The file&#39;s day: breaks'
    )
    assert text.index(verdict) < text.index("<nav")
    # 30 minutes before 11:40, and behind the minutes in which the backlog is answered.
    enlarged, whole = times
    assert enlarged.startswith("11:10 11:15 11:20 ")
    assert (
        whole == "00:00 02:00 04:00 06:00 08:00 10:00 12:00 14:00 16:00 18:00 20:00 22:00 1d 00:00"
    )


def minutes(count: int, **at: Any) -> list[Any]:
    quiet = {"waiting": 0.0, "breaks": 0.0, "use": 0.1}
    return [SimpleNamespace(**quiet | at.get(f"at{number}", {})) for number in range(count)]


def test_what_matters_is_the_longest_run_outside_or_what_is_nearest_to_it() -> None:
    cases: list[tuple[list[int], dict[str, Any], int, int, str]] = [
        ([100, 400, 401], {}, 370, 432, "The longest time outside of the objective"),
        (list(range(100, 900)), {}, 70, 191, "The start of the longest time outside"),
        ([5], {}, 0, 36, "The longest time outside of the objective"),
        ([], {"at300": {"waiting": 5.0}}, 270, 331, "When most callers find no copy"),
        (
            [],
            {"at800": {"breaks": 0.2}, "at900": {"use": 0.9}},
            770,
            831,
            "The minute with the least spare capacity",
        ),
        ([], {"at1400": {"use": 0.9}}, 1370, 1431, "The minute with the least spare capacity"),
    ]
    for broken, at, begin, end, why in cases:
        some = minutes(1440, **at)
        waiting = sum(minute.waiting for minute in some)
        day = SimpleNamespace(minutes=some, broken=broken, waiting_callers=waiting)
        found = page._find_relevant_minutes(SimpleNamespace(day=day))  # type: ignore[arg-type]
        assert found == (begin, end, why)
    assert join_minutes([3, 4, 5, 9, 11, 12]) == [(3, 5), (9, 9), (11, 12)]
