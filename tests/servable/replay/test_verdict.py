"""The gate is met only if enough was compared."""

import dataclasses
import json
from collections.abc import Iterator

import numpy as np
import pytest

from infra.parameters.replay import OutputTolerance, Replay
from servable.captured.lines import RecordedAnswer
from servable.replay.answers import AnswerPair
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import (
    ReplayVerdict,
    check_limits,
    compute_largest_share,
    compute_least_rows,
    format_confidence,
)
from servable.replay.compare.output import build_json, list_ignored, list_unseen
from servable.replay.places import SkipCount
from tests.servable.replay.pairs import comparison_of, pair_of, recorded

ROWS = 100


def answer(values: object, **beside: object) -> RecordedAnswer:
    return recorded(json.dumps({"outputs": {"scores": values}} | beside).encode())


SCORES = np.linspace(0.1, 0.9, ROWS).tolist()
SAME = answer(SCORES)


def alike(count: int, rows: int = ROWS) -> Iterator[AnswerPair]:
    expected = answer(SCORES[:rows])
    return (pair_of(number, expected, expected) for number in range(count))


def verdict(
    comparison: Comparison, limits: Replay | None = None, read: int = 30, *skipped: SkipCount
) -> ReplayVerdict:
    return check_limits(comparison, limits or Replay(), read, skipped)


def skip(lines: int, file: str = "captured/a.jsonl") -> SkipCount:
    return SkipCount(file, "it is not JSON", lines, 1)


def test_rows_and_shares_follow_from_a_poisson_count() -> None:
    for share, rows in [(1e-4, 30_000), (1e-3, 3_000), (0.015, 200), (1, 3)]:
        assert compute_least_rows(Replay(detectable_share=share)) == rows
    # 95 % limits of a Poisson count, from a table of chi-square (Pearson and Hartley, table 8): half of the
    # 95 % quantile of 2 k + 2 degrees of freedom.
    for differing, limit in [(0, 3.0), (1, 4.744), (4, 9.154), (14, 21.886)]:
        assert compute_largest_share(differing, 10_000) == pytest.approx(limit / 10_000, rel=0.01)


def test_enough_rows_of_enough_requests_are_met_and_fewer_cannot_be_told() -> None:
    assert verdict(comparison_of(alike(30))).outcome == "met"
    line = "0 of 3,000 rows show that fewer than 0.1 % of all rows differ, with 95 % confidence"
    assert format_confidence(comparison_of(alike(30))) == line

    several = [*alike(29), next(alike(1, rows=99))]
    found = verdict(comparison_of(iter(several)))
    assert (found.outcome, found.exit_code) == ("cannot be told", 3)
    assert "which needs 3,000 rows" in found.missing[0]
    assert "detectable_share = 0.0011." in found.missing[0]

    failed = dataclasses.replace(SAME, status=500)
    found = verdict(comparison_of(pair_of(number, SAME, failed) for number in range(30)))
    assert "0 rows of 0 responses cannot show" in found.missing[0]

    few = Replay(detectable_share=0.05)
    assert verdict(comparison_of(alike(1)), few).outcome == "cannot be told"
    assert verdict(comparison_of(alike(10, rows=10)), few).outcome == "met"


def test_skipped_lines_and_a_share_near_to_its_limit_cannot_be_told() -> None:
    found = verdict(comparison_of(alike(30)), None, 31, skip(5), skip(3))
    assert found.outcome == "cannot be told"
    assert "8 of 31 captured lines were skipped" in found.missing[0]
    assert verdict(comparison_of(alike(30)), None, 100, skip(1)).outcome == "met"
    (line,) = verdict(comparison_of(alike(30)), None, 30, skip(0), skip(0, "notes.txt")).lines
    assert "captured/a.jsonl was not read" in line

    several = [*alike(30), *(pair_of(number, None, SAME) for number in range(30, 33))]
    found = verdict(comparison_of(iter(several)))
    assert "3 of 33 requests have no captured response" in found.missing[0]

    changed = pair_of(30, SAME, answer([*SCORES[:-1], 0.5]))
    assert verdict(comparison_of(iter([changed]))).outcome == "NOT met"

    changed = answer([*SCORES[:-27], *np.linspace(0.2, 0.3, 27).tolist()])
    several = [*alike(29), pair_of(29, SAME, changed)]
    limits = Replay(differing_rows_share=0.01)
    assert "up to 1.24 % of all may" in verdict(comparison_of(iter(several)), limits).missing[0]


# --- what is not compared, and what is not seen
def test_added_outputs_are_allowed_and_columns_that_are_not_seen_named() -> None:
    for added, held in [(False, "NOT met"), (True, "met")]:
        limits = Replay(added_outputs=added)
        more = answer(SCORES, explanation="x")
        comparison = comparison_of((pair_of(n, SAME, more) for n in range(30)), limits)
        assert verdict(comparison, limits).outcome == held
        assert list_ignored(comparison) == (
            ["not compared, allowed by [replay] added_outputs: explanation in 30"] if added else []
        )

    (line,) = columns()
    assert line.startswith("scores: a change of 1 % in column 2 of 4 is within the tolerance")
    assert columns(lengths=(4, 2, 4)) == []
    assert columns(relative=1e-9) == columns(absolute=1e-4) == []


def columns(
    relative: float | None = None, absolute: float | None = None, lengths: tuple[int, ...] = (4, 4)
) -> list[str]:
    """Lines of an output with a column far below the others of its rows."""
    tolerance = OutputTolerance(relative=relative, absolute=absolute)
    several = [answer([[1e6, 0.5, 0.0, 2e4][:length]] * ROWS) for length in lengths]
    pairs = (pair_of(number, one, one) for number, one in enumerate(several))
    limits = Replay(outputs={"scores": tolerance})
    lines = list_unseen(comparison := comparison_of(pairs, limits))
    stored = build_json(comparison, limits, None)["outputs"]["scores"]["unseen_columns"]
    assert stored == [2] * len(lines)
    return lines
