"""A warm-up request that fails: the reason names its key and its file, where they are known."""

import pytest

from servable.serve.serve import PreparedVariant

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


@pytest.mark.parametrize(("number", "file"), [(1, "golden/a.json"), (2, "golden/b.json")])
def test_the_key_and_the_file_of_a_failing_warm_up_request_are_named(
    number: int, file: str
) -> None:
    assert SERVED.explained(reason("ranker", number)) == (
        f"no rows; environments/dev.toml: models.ranker.warm_up: the model fails on {file}, so that "
        "the container does not start; write a request there that the model answers, or remove it from "
        "warm_up"
    )


@pytest.mark.parametrize(
    "other",
    [
        reason("ranker", 3),
        reason("other", 1),
        reason("unknown", 1),
        "TensorFlow does not load the model: model ranker version 3: no graph",
        "the port 8080 is in use",
    ],
)
def test_any_other_reason_stays_as_it_is(other: str) -> None:
    assert SERVED.explained(other) == other
