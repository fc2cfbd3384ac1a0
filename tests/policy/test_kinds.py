"""The kinds of endpoints and what follows from them: bounds of bodies, metrics, scaling."""

from infra.policy.hosting import ASYNCHRONOUS, KINDS, REAL_TIME, SERVERLESS, select_kind


def test_a_queue_and_instances_make_the_kind() -> None:
    for queued, has_instances, kind in [
        (True, True, ASYNCHRONOUS),
        (False, True, REAL_TIME),
        (False, False, SERVERLESS),
    ]:
        assert select_kind(queued=queued, has_instances=has_instances) is kind
        assert (kind.queued, kind.has_instances) == (queued, has_instances)
    assert str(REAL_TIME) == "real-time"


def test_bodies_empty_fleets_and_metrics_are_those_of_the_kind() -> None:
    # BodyBlob of botocore's sagemaker-runtime model; the developer guide's pages on each kind.
    assert {str(kind): (kind.request_bytes, kind.answer_bytes) for kind in KINDS} == {
        "real-time": (6_291_456, 6_291_456),
        "asynchronous": (2**30, 2**30),
        "serverless": (4 * 2**20, 4 * 2**20),
    }
    assert [str(kind) for kind in KINDS if kind.can_be_empty] == ["asynchronous", "serverless"]
    for kind, metric, published in [
        (REAL_TIME, "ModelLatency", True),
        (REAL_TIME, "ApproximateBacklogSize", False),
        (ASYNCHRONOUS, "ApproximateBacklogSize", True),
        (SERVERLESS, "OverheadLatency", True),
    ]:
        assert kind.has_metric(metric) is published
