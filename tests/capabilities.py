"""Environments that ask for any mixture of capabilities: mostly sensible, sometimes not."""

from typing import Any

import hypothesis.strategies as st

HASH = "a" * 64
ARTIFACT = {"uri": "s3://models/run-1/model.tar.gz", "sha256": HASH, "size_gib": 0.1}
KEY = "arn:aws:kms:eu-west-1:111111111111:key/00000000-0000-0000-0000-000000000001"
ROLE = "arn:aws:iam::111111111111:role/web"
KINDS = ("real_time", "real_time", "asynchronous", "serverless")
STEPS = [{"above_rps": 20.0, "change": 2}, {"below_rps": 1.0, "change": -1}]
SCHEDULE = [{"at": "cron(0 7 ? * MON-FRI *)", "timezone": "Europe/Berlin", "at_least": 1}]
# What each kind can be scaled on; one of it, and anything of the rest.
TRACKED: dict[str, dict[str, Any]] = {
    "real_time": {
        "max_rps_per_instance": 1000.0,
        "max_concurrency_per_instance": 8.0,
        "steps": STEPS,
        "schedule": SCHEDULE,
    },
    "asynchronous": {"max_backlog_per_instance": 5.0},
    "serverless": {"provisioned_use_percent": 70.0},
}
ALARMS = {
    "p50_latency_ms": 50.0, "p99_latency_ms": 100.0, "error_4xx_percent": 5,
    "model_error_percent": 2, "no_traffic_minutes": 9, "oldest_request_minutes": 5,
}  # fmt: skip
ANY_KIND = {"schedule": SCHEDULE, "hold": True, "scale_out_cooldown_seconds": 600}


def _some(values: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    each = {name: st.just(value) for name, value in values.items()}
    return st.fixed_dictionaries({}, optional=each)


@st.composite
def _scaling(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    first = draw(st.sampled_from(sorted(TRACKED[kind])))
    more = draw(_some({**TRACKED[kind], **ANY_KIND}))
    return {**more, first: TRACKED[kind][first]}


@st.composite
def _variant(draw: st.DrawFn, kind: str, *, many: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"model": "many" if many else "one"}
    scaled = draw(st.booleans())
    if kind == "serverless":
        found["serverless"] = {"memory_mib": 2048, "max_concurrency": 10} | (
            {"provisioned_concurrency": 1, "max_provisioned_concurrency": 4} if scaled else {}
        )
    else:
        found["instance_type"] = draw(st.sampled_from(["ml.c5.xlarge", "ml.g5.xlarge"]))
        zero = kind == "asynchronous" and scaled
        found["min_instances"] = draw(st.sampled_from([0, 1, 2] if zero else [1, 2]))
        if scaled:
            found["max_instances"] = 4
        found |= draw(_some({"routing": "random", "ssm_access": True}))
    if scaled:
        found["scaling"] = draw(_scaling(kind))
        if found.get("min_instances") == 0:
            found["scaling"].pop("hold", None)
    return found


@st.composite
def _nonsense(draw: st.DrawFn, found: dict[str, Any]) -> None:
    """Something of another kind into what was sensible."""
    variant = found["variants"]["a"]
    what = draw(st.integers(0, 5))
    if what == 0:
        variant["scaling"] = draw(_scaling(draw(st.sampled_from(KINDS))))
    elif what == 1:
        variant["serverless"] = {"memory_mib": 1024, "max_concurrency": 1}
    elif what == 2:
        variant["min_instances"] = 0
    elif what == 3:
        found["asynchronous"] = {}
    elif what == 4:
        variant["shadow"] = True
    else:
        variant["model"] = "many"


@st.composite
def environments(draw: st.DrawFn) -> dict[str, Any]:
    """A whole file as its values."""
    kind = draw(st.sampled_from(KINDS))
    many = kind == "real_time" and draw(st.integers(0, 4)) == 0
    found: dict[str, Any] = {
        "account": "111111111111",
        "region": "eu-west-1",
        "production": False,
        "endpoint": {"name": "ranker"} | draw(_some({"callers": [ROLE]})),
        "models": {
            "one": {"artifact": ARTIFACT, "tensorflow": "2.20"},
            "member": {"saved_model": "model", "tensorflow": "2.20"},
            "many": {"multi_model": ["member"], "tensorflow": "2.20"},
        },
        "variants": {"a": draw(_variant(kind, many=many))},
        "alarms": draw(_some(ALARMS)),
    }
    if kind == "real_time" and not many and draw(st.booleans()):
        found["variants"]["b"] = draw(_variant(kind, many=False))
        found["variants"]["b"]["shadow"] = draw(st.booleans())
    if draw(st.booleans()):
        found["metrics"] = {"enhanced_metrics": True, "publish_seconds": 10}
    if kind == "asynchronous":
        limits = {"kms_key": KEY, "max_concurrent_invocations_per_instance": 4}
        found["asynchronous"] = draw(_some(limits))
    if kind != "serverless":
        network = {"subnets": ["subnet-0a1b2c3d"], "security_groups": ["sg-0a1b2c3d"]}
        found |= draw(_some({"capture": {}, "network": network}))
        strategies = ["all_at_once", "canary", "linear"]
        if len(found["variants"]) == 1:
            strategies.append("rolling")
        if draw(st.booleans()):
            found["rollout"] = {"strategy": draw(st.sampled_from(strategies))}
    if draw(st.integers(0, 5)) == 0:
        draw(_nonsense(found))
    return found
