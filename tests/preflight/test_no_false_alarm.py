"""500 environments that somebody could mean, drawn from the catalog, pass, and their containers start."""

from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings

from infra.catalog import images, instances
from infra.catalog.instances import Instance, load_instances
from infra.catalog.instances import list_regions as regions_with_endpoints
from infra.parameters.loading import load
from infra.parameters.placement import list_placements
from infra.preflight.check import check
from tests.conftest import valid
from tests.policy.container_oracle import start

pytestmark = pytest.mark.long
CURRENT = [
    version
    for version in images.list_versions()
    if version.count(".") == 1 and images.find_end_of_patch(version) is None
]
MACHINES = sorted(
    (
        instance
        for instance in load_instances().values()
        if instance.architecture == "x86_64" and not instance.successor
    ),
    key=lambda one: one.name,
)


@st.composite
def environments(draw: st.DrawFn) -> dict[str, Any]:
    """A whole file as its values."""
    version = draw(st.sampled_from(CURRENT))
    known = set(images.list_regions(version)) & set(regions_with_endpoints())
    region = draw(st.sampled_from(sorted(known - set(instances.list_regions_without_endpoints()))))
    here = set(instances.list_instance_types(region))
    machines = [one for one in MACHINES if one.name in here]
    scaled = draw(st.booleans())
    rollout = draw(st.sampled_from([None, "all_at_once", "canary", "linear", "rolling"]))
    count = 1 if rollout == "rolling" else draw(st.integers(1, 3))
    has_code = draw(st.booleans())
    safety = draw(st.sampled_from([0.5, 0.7, 1.0]))
    # Enough for p99 in a share of one percent, in the quietest hour too.
    peak = draw(st.floats(20_000, 90_000))
    variants = {
        f"v{number}": draw(
            _variants(machines, scaled=scaled, has_code=has_code, safety=safety, peak=peak)
        )
        for number in range(count)
    }
    least = min(variant["min_instances"] for variant in variants.values())
    model: dict[str, Any] = {"saved_model": "model"}
    if draw(st.booleans()):
        model["tensorflow"] = version
    if has_code:
        model["code"] = "code"
    found: dict[str, Any] = {
        "account": "111111111111",
        "region": region,
        "endpoint": {"name": draw(st.from_regex(r"[a-z]{1,10}(-[a-z0-9]{1,10})?", fullmatch=True))},
        "models": {"m": model},
        "variants": variants,
        "traffic": {
            "peak_rps": peak,
            "quiet_rps": draw(st.floats(10_000, 20_000)),
            "rows_per_request": 8,
            "request_bytes": draw(st.integers(1, 6_291_456)),
            "answer_bytes": draw(st.integers(1, 6_291_456)),
            "caller_timeout_ms": draw(st.floats(2000, 60_000)),
        },
        "alarms": {
            "p99_latency_ms": draw(st.floats(100, 1999)),
            "window_minutes": draw(st.integers(1, 5)),
        },
    }
    if rollout is not None:
        found["rollout"] = draw(_rollouts(rollout, least))
    return found


@st.composite
def _variants(
    draw: st.DrawFn,
    machines: list[Instance],
    *,
    scaled: bool,
    has_code: bool,
    safety: float,
    peak: float,
) -> dict[str, Any]:
    machine = draw(st.sampled_from([one for one in machines if not (scaled and one.burstable)]))
    least = draw(st.integers(2, 12))
    found: dict[str, Any] = {
        "model": "m",
        "instance_type": machine.name,
        "min_instances": least,
        "container": draw(_containers(machine, has_code=has_code)),
    }
    if not machine.local_nvme_gb and draw(st.booleans()):
        found["volume_gb"] = draw(st.integers(1, 512))
    if draw(st.booleans()):
        found["environment"] = {"TABLE": draw(st.text("abc/=", max_size=1024))}
    if scaled:
        found["max_instances"] = draw(st.integers(least, 100))
        # One instance carries the whole peak, and no two of them.
        found["scaling"] = {
            "max_rps_per_instance": draw(st.floats(1.01, 1.9)) * peak / safety,
            "safety_factor": safety,
            "scale_out_cooldown_seconds": draw(st.integers(300, 600)),
            "scale_in_cooldown_seconds": draw(st.integers(600, 3600)),
        }
    return found


@st.composite
def _containers(draw: st.DrawFn, machine: Instance, *, has_code: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    most = max(1, min(machine.vcpus, int(machine.memory_gib)) // 2)
    by_gpu = [machine.gpus, 2 * machine.gpus]
    processes = draw(st.sampled_from(by_gpu) if machine.gpus else st.integers(1, most))
    if draw(st.booleans()):
        found["tfs_processes"] = processes
        if draw(st.booleans()):
            found["intra_op_threads"] = draw(st.integers(1, max(1, machine.vcpus // processes)))
    batching = {"max_batch_size": st.integers(8, 4096), "timeout_micros": st.integers(0, 99_999)}
    optional: dict[str, st.SearchStrategy[Any]] = {
        "onednn": st.booleans(),
        "wait_time_seconds": st.integers(6, 3600),
        "batching": st.fixed_dictionaries(batching),
    }
    if has_code:
        optional["gunicorn_workers"] = st.integers(1, most)
        optional["gunicorn_timeout_seconds"] = st.integers(1, 60)
    return found | draw(st.fixed_dictionaries({}, optional=optional))


@st.composite
def _rollouts(draw: st.DrawFn, strategy: str, least: int) -> dict[str, Any]:
    share = st.integers(-(-100 // least), 50)
    # Of ten steps, or twenty batches, eight hours are the most.
    longest = {"linear": 40, "rolling": 15}.get(strategy, 60)
    found: dict[str, Any] = {"strategy": strategy, "bake_minutes": draw(st.integers(6, longest))}
    if strategy == "linear":
        found["step_percent"] = draw(share.filter(lambda one: one >= 10))
    elif strategy != "all_at_once":
        found["canary_percent" if strategy == "canary" else "batch_percent"] = draw(share)
    return found


@settings(
    max_examples=500,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(values=environments())
def test_what_is_valid_passes_and_starts(project: Path, values: dict[str, Any]) -> None:
    (project / "environments" / "dev.toml").write_text(tomlkit.dumps(values), encoding="utf-8")
    (loaded,) = load(project, project / "environments")
    assert [str(finding) for finding in check(loaded)] == []
    environment = valid(loaded).environment
    for placement in list_placements(environment):
        found, machine = placement.build_hosting(environment.region), placement.instance
        has_code, vcpus = placement.model.code is not None, machine.vcpus
        started = start(found.variables, vcpus=vcpus, gpus=machine.gpus, has_code=has_code)
        assert len(started.model_servers) == (placement.settings.tfs_processes or 1)
        assert len(found.variables) <= 100
