"""The kinds of endpoints and what follows from them: bounds of bodies, metrics, scaling."""

import pytest

from infra.policy.hosting import (
    ASYNCHRONOUS,
    KINDS,
    REAL_TIME,
    SERVERLESS,
    EndpointKind,
    select_kind,
)


@pytest.mark.parametrize(
    ("queued", "has_instances", "kind"),
    [(True, True, ASYNCHRONOUS), (False, True, REAL_TIME), (False, False, SERVERLESS)],
)
def test_a_queue_and_instances_make_the_kind(
    queued: bool, has_instances: bool, kind: EndpointKind
) -> None:
    assert select_kind(queued=queued, has_instances=has_instances) is kind
    assert (kind.queued, kind.has_instances) == (queued, has_instances)


# BodyBlob of botocore's sagemaker-runtime model; the developer guide's pages on each kind.
@pytest.mark.parametrize(
    ("kind", "request_bytes", "answer_bytes"),
    [
        (REAL_TIME, 6_291_456, 6_291_456),
        (ASYNCHRONOUS, 2**30, 2**30),
        (SERVERLESS, 4 * 2**20, 4 * 2**20),
    ],
)
def test_bodies_are_bounded_by_the_kind(
    kind: EndpointKind, request_bytes: int, answer_bytes: int
) -> None:
    assert (kind.request_bytes, kind.answer_bytes) == (request_bytes, answer_bytes)


def test_only_a_queue_or_no_instances_survive_zero_instances() -> None:
    assert [str(kind) for kind in KINDS if kind.can_be_empty] == ["asynchronous", "serverless"]


@pytest.mark.parametrize(
    ("kind", "metric", "published"),
    [
        (REAL_TIME, "ModelLatency", True),
        (REAL_TIME, "ApproximateBacklogSize", False),
        (ASYNCHRONOUS, "ApproximateBacklogSize", True),
        (SERVERLESS, "OverheadLatency", True),
    ],
)
def test_a_metric_is_published_by_some_kinds(
    kind: EndpointKind, metric: str, published: bool
) -> None:
    assert kind.has_metric(metric) is published


def test_a_kind_is_written_with_a_hyphen_in_a_sentence() -> None:
    assert str(REAL_TIME) == "real-time"
