"""docs/client.md does what it says."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

import servable_client
from servable_client import FakeEndpoint, errors

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "client.md").read_text(encoding="utf-8")


class Documented(FakeEndpoint):
    """In the place of a deployed endpoint; its name and where it puts requests do not matter."""

    def __init__(self, name: str, **told: Any) -> None:
        super().__init__(lambda feat_ids, feat_vals: {"prob": feat_vals.mean(axis=1)}, **told)


def test_every_block_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servable_client, "Endpoint", Documented)
    monkeypatch.setattr("servable_client.endpoint.Endpoint", Documented)
    names: dict[str, Any] = {"asyncio": asyncio}
    for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(block, names)
    assert len(asyncio.run(names["both"]())) == 2


ERRORS = PAGE.partition("## What can go wrong")[2].partition("## asyncio")[0]
NAMES = sorted({*re.findall(r"`([A-Z][A-Za-z]+)`", ERRORS)})


def test_the_errors_of_the_page_are_those_of_the_code() -> None:
    for name in NAMES:
        assert hasattr(servable_client, name)
    tree = set(re.findall(r"── (\w+)", errors.__doc__ or ""))
    assert tree - {"BusyError", "UnansweredError"} <= {*re.findall(r"\w+", PAGE)}
    kinds = {
        n for n, var in vars(errors).items() if isinstance(var, type) and issubclass(var, Exception)
    }
    assert tree | {"PredictionError"} == kinds
