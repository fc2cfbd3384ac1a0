"""Environments that ask for any mixture of capabilities, sensible or not."""

from typing import Any

import hypothesis.strategies as st

HASH = "a" * 64
ARTIFACT = {"uri": "s3://models/run-1/model.tar.gz", "sha256": HASH, "size_gib": 0.1}
KEY = "arn:aws:kms:eu-west-1:111111111111:key/00000000-0000-0000-0000-000000000001"
ROLE = "arn:aws:iam::111111111111:role/web"
STEPS = [{"above_rps": 20.0, "change": 2}, {"below_rps": 1.0, "change": -1}]
SCHEDULE = [{"at": "cron(0 7 ? * MON-FRI *)", "timezone": "Europe/Berlin", "at_least": 1}]

SCALING = st.fixed_dictionaries(
    {},
    optional={
        "max_rps_per_instance": st.just(1000.0),
        "max_concurrency_per_instance": st.just(8.0),
        "max_backlog_per_instance": st.just(5.0),
        "provisioned_use_percent": st.just(70.0),
        "steps": st.just(STEPS),
        "schedule": st.just(SCHEDULE),
        "hold": st.booleans(),
        "scale_out_cooldown_seconds": st.sampled_from([60, 600]),
    },
)
SERVERLESS = st.fixed_dictionaries(
    {"memory_mib": st.sampled_from([1024, 6144]), "max_concurrency": st.just(10)},
    optional={
        "provisioned_concurrency": st.sampled_from([1, 10, 11]),
        "max_provisioned_concurrency": st.sampled_from([1, 10]),
    },
)
MACHINES = st.one_of(
    *[st.just({"instance_type": one}) for one in ("ml.c5.xlarge", "ml.g5.xlarge", "ml.t2.medium")],
    SERVERLESS.map(lambda asked: {"serverless": asked}),
)


@st.composite
def _variant(draw: st.DrawFn, *, main: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"model": "many" if draw(st.integers(0, 7)) == 0 else "one"}
    found |= draw(MACHINES)
    if "instance_type" in found:
        least = draw(st.sampled_from([0, 1, 2]))
        found |= {"min_instances": least, "max_instances": draw(st.sampled_from([2, 4]))}
    more: dict[str, st.SearchStrategy[Any]] = {
        "scaling": SCALING,
        "routing": st.sampled_from(["random", "least_outstanding_requests"]),
        "ssm_access": st.booleans(),
        "weight": st.sampled_from([0.5, 1.0, 2.0]),
    }
    if not main:
        more["shadow"] = st.booleans()
    return found | draw(st.fixed_dictionaries({}, optional=more))


@st.composite
def environments(draw: st.DrawFn) -> dict[str, Any]:
    """A whole file as its values."""
    found: dict[str, Any] = {
        "account": "111111111111",
        "region": "eu-west-1",
        "production": False,
        "endpoint": {"name": "ranker"},
        "models": {
            "one": {"artifact": ARTIFACT, "tensorflow": "2.20"},
            "member": {"saved_model": "model", "tensorflow": "2.20"},
            "many": {"multi_model": ["member"], "tensorflow": "2.20"},
        },
        "variants": {"a": draw(_variant(main=True))},
        "alarms": {"p99_latency_ms": 100.0, "no_traffic_minutes": 30, "oldest_request_minutes": 5},
    }
    if draw(st.integers(0, 3)) == 0:
        found["variants"]["b"] = draw(_variant(main=False))
    tables: dict[str, dict[str, Any]] = {
        "asynchronous": draw(
            st.sampled_from([{}, {"kms_key": KEY, "max_concurrent_invocations_per_instance": 4}])
        ),
        "rollout": {
            "strategy": draw(st.sampled_from(["all_at_once", "canary", "linear", "rolling"])),
            "canary_percent": 50,
        },
        "capture": {},
        "network": {"subnets": ["subnet-0a1b2c3d"], "security_groups": ["sg-0a1b2c3d"]},
    }
    for name, values in tables.items():
        if draw(st.integers(0, 2)) == 0:
            found[name] = values
    if draw(st.booleans()):
        found["endpoint"]["callers"] = [ROLE]
    return found
