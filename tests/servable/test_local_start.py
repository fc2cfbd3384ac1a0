"""A local start: a warm-up request that fails is named with its key and file, and the wait is the file's."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from infra.parameters.loading import load
from servable.serve import container
from servable.serve.container import serve_image, serve_locally
from servable.serve.serve import PreparedVariant, prepared
from tests.conftest import VALID, valid

SERVED = PreparedVariant(
    variant="primary",
    archive=None,
    members={},
    variables={},
    image="",
    tensorflow="2.20",
    file="environments/dev.toml",
    warm_up={"ranker": ["golden/a.json", "golden/b.json"], "other": []},
)


def reason(model: str, number: int) -> str:
    record = f"assets.extra/tf_serving_warmup_requests: record {number}"
    return f"TensorFlow does not load the model: model {model} version 3: {record}: no\n\trows"


def test_the_key_and_the_file_of_a_failing_warm_up_request_are_named() -> None:
    for number, file in [(1, "golden/a.json"), (2, "golden/b.json")]:
        assert SERVED.explained(reason("ranker", number)) == (
            f"no rows; environments/dev.toml: models.ranker.warm_up: the model fails on {file}, so that "
            "the container does not start; write a request there that the model answers, or remove it from "
            "warm_up"
        )
    for other in [
        reason("ranker", 3),
        reason("other", 1),
        reason("unknown", 1),
        "TensorFlow does not load the model: model ranker version 3: no graph",
        "the port 8080 is in use",
    ]:
        assert SERVED.explained(other) == other


@pytest.mark.parametrize(("stated", "seconds"), [("", 3600), ("startup_timeout_seconds = 90", 90)])
def test_a_local_start_waits_as_long_as_the_file_states(
    project: Path, monkeypatch: pytest.MonkeyPatch, stated: str, seconds: float
) -> None:
    waits: list[float] = []

    def start(*given: Any, ready_timeout_seconds: float, **options: Any) -> Any:
        waits.append(ready_timeout_seconds)
        return nullcontext(SimpleNamespace(faults=MagicMock()))

    monkeypatch.setattr(container, "launch", start)
    monkeypatch.setattr(container, "launch_image", start)
    (project / "environments" / "prod.toml").write_text(f"{VALID}{stated}\n")
    (loaded,) = load(project, project / "environments")
    served = prepared(valid(loaded))
    with serve_locally(served, port=0):
        pass
    serve_image(served, port=0)
    assert waits == [seconds, seconds]
