"""Every benchmark runs, with small numbers, and measures a ratio for each of its bounds."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import articles, batch, client, frame, load, packaging, search, serving, synth

pytestmark = pytest.mark.long
SMALL: dict[Any, dict[str, Any]] = {
    packaging: {"REPEATS": 2, "WEIGHTS": 100_000, "SPARSE_FILES": 3},
    serving: {"REPEATS": 2, "SLICES": 1, "REQUESTS": {1: 2, 111: 2, 2_230: 1}},
    client: {"REPEATS": 2, "CALLS": 2, "SLOW_CALLS": 1},
    synth: {"REPEATS": 2},
    load: {"REPEATS": 1, "SECONDS": 2, "SEEDS": 1, "OPEN_SECONDS": 5},
    search: {"SURFACES": 1},
    batch: {"COUNT": 1_000, "LOOP_ROWS": 10},
    articles: {"REPEATS": 2, "SECONDS": 0.1},
}


@pytest.mark.parametrize("benchmark", SMALL, ids=lambda benchmark: str(benchmark.TITLE))
def test_a_benchmark_measures_every_ratio_of_its_bounds(
    benchmark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SMALL[benchmark].items():
        monkeypatch.setattr(benchmark, name, value)
    result = benchmark.measure(tmp_path, lambda text: None)
    assert set(result["ratios"]) == set(benchmark.BOUNDS)
    assert json.loads(json.dumps(result)) == result
    assert all(values for values in result["ratios"].values())


def test_every_benchmark_is_run_here() -> None:
    assert {benchmark.__name__.rpartition(".")[2] for benchmark in SMALL} == {*frame.NAMES}
