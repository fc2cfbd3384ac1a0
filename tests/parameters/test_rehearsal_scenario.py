"""A file's numbers in the scenario of a day: traffic, start, bounds, deployment, and what is not stated."""

from collections.abc import Callable
from typing import Any

import pytest

from infra.parameters.environment import Environment
from infra.parameters.loading import ValidFile
from infra.parameters.placement import Placement, find_placement
from infra.parameters.rehearsal_scenario import (
    MeasuredInstance,
    build_scenario,
    disable_sleep,
    estimate_deployment_seconds,
    list_missing_keys,
    list_scaling_delays,
    read_stated_day,
)
from servable_scaling.rehearsal.scenario import PlacedDeployment, Scenario, Sleep
from tests.conftest import VALID

Read = Callable[..., ValidFile]
MEASURED = MeasuredInstance(rate_rps=50, p50_ms=10, p99_ms=40, source="measured")
THREE = VALID + (
    "min_instances = 2\nmax_instances = 6\nweight = 3\nstart_seconds = 200\n"
    "[variants.primary.scaling]\nmax_rps_per_instance = 40\nsafety_factor = 0.5\n"
    '[variants.other]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\n'
    '[variants.copy]\nmodel = "ranker"\ninstance_type = "ml.c5.xlarge"\nshadow = true\n'
    'min_instances = 2\nrouting = "random"\n[alarms]\np99_latency_ms = 80\n'
)
SLEEPING = VALID + "sleep_after_minutes = 15\nmax_instances = 2\n"


def placed(file: ValidFile, name: str = "primary") -> Placement:
    found = find_placement(file.environment, name)
    assert found is not None
    return found


def day(file: ValidFile, name: str = "primary", rpm: float = 6000, **more: Any) -> Scenario:
    return build_scenario(file.environment, placed(file, name), [rpm, rpm], MEASURED, **more)


def test_a_variant_gets_its_share_and_a_shadow_a_copy_of_each_request(environment: Read) -> None:
    file = environment(THREE)
    days = {name: day(file, name) for name in ("primary", "other", "copy")}
    shown = {name: each.requests for name, each in days.items()}
    assert shown == {"primary": [4500, 4500], "other": [1500, 1500], "copy": [6000, 6000]}
    told = [each.routing for each in days.values()]
    assert told == ["least_outstanding_requests", "least_outstanding_requests", "random"]
    assert [each.page is None for each in days.values()] == [False, False, True]
    assert [each.start_minutes for each in days.values()] == [4, 4, 4]
    service = days["primary"].model.service
    assert (service.p50_seconds, service.p99_seconds) == (0.01, 0.04)
    assert days["primary"].p99_ms == 80


def test_no_request_waits_longer_than_sagemaker_or_than_the_queue_is(environment: Read) -> None:
    assert day(environment()).model.queue == 60 * 50  # InvokeEndpoint waits 60 s
    table = "[variants.primary.container.batching]"
    batching = f"{table}\nmax_batch_size = 2\nmax_enqueued_batches = 4\n"
    bounded = day(environment(VALID + batching)).model.queue
    # 4 batches of 2 rows wait; the image adds to these what its workers hold.
    assert 8 <= bounded < 3000
    rows = day(environment(f"{VALID}{batching}[traffic]\nrows_per_request = 2\n")).model.queue
    assert rows < bounded


def test_a_day_begins_with_as_many_instances_as_its_first_minute_needs(environment: Read) -> None:
    for name, rpm, instances in [
        ("primary", 0, 2),
        ("primary", 60, 2),
        # 75 requests a second of 100; an instance takes 50, and half of that is safe.
        ("primary", 6000, 3),
        ("primary", 60_000, 6),
        ("other", 60_000, 1),
        ("copy", 60_000, 2),
    ]:
        assert day(environment(THREE), name, rpm).instances == instances

    action = 'scaling.schedule = [{{ at = "cron({} * * ? *)", {} }}, {{ at = "cron({})", {} }}]'
    night = action.format("0 20", "at_least = 4", "0 7 * * ? *", "at_least = 1, at_most = 3")
    text = VALID + "max_instances = 6\nscaling.max_rps_per_instance = 40\n"
    (target,) = day(environment(text + night)).targets.values()
    # The last action before midnight set the minimum, the one before it the maximum.
    assert (target["MinCapacity"], target["MaxCapacity"]) == (4, 3)
    (target,) = day(environment(text)).targets.values()
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 6)


@pytest.mark.parametrize(("lines", "pairs", "missing"), [
    ("", [(180, 0), (420, 0)], ["start_seconds"]),
    ("start_seconds = 90", [(90, 0)], []),
    ("max_instances = 2\nscaling.max_rps_per_instance = 4",
     [(180, 0), (180, 180), (420, 0), (420, 180)],
     ["start_seconds", "scaling.metric_delay_seconds"]),
    ("max_instances = 2\nscaling = { max_rps_per_instance = 4, metric_delay_seconds = 30 }",
     [(180, 30), (420, 30)], ["start_seconds"]),
    ("max_instances = 2\nscaling = { max_rps_per_instance = 4, hold = true }",
     [(180, 0), (420, 0)], ["start_seconds"]),
    ("max_instances = 2\nsleep_after_minutes = 5\nstart_seconds = 500", [(500, 0), (500, 180)],
     ["scaling.metric_delay_seconds"]),
], ids=["fixed", "start", "scales", "delay", "held", "sleeps"])  # fmt: skip
def test_what_is_not_stated_is_a_range_and_its_keys_are_named(
    environment: Read, lines: str, pairs: list[tuple[int, int]], missing: list[str]
) -> None:
    found = placed(environment(f"{VALID}{lines}\n"))
    paces = list(list_scaling_delays(found))
    assert [(round(pace.start_seconds), pace.metric_delay_seconds) for pace in paces] == pairs
    assert list_missing_keys(found) == [f"variants.primary.{key}" for key in missing]
    # A started minute counts.
    assert [pace.start_minutes for pace in paces] == [-(-start // 60) for start, _ in pairs]


def test_a_pace_that_is_given_is_that_of_the_day(environment: Read) -> None:
    file = environment(SLEEPING + "start_seconds = 500\n")
    slowest = list_scaling_delays(placed(file))[-1]
    slept = day(file, rpm=0, pace=slowest)
    assert (slept.start_minutes, slept.metric_delay_seconds, slept.instances) == (9, 180, 0)
    # On an instance that is still there only the copy starts: 180 s of the 500 are the instance's.
    wakes = file.environment.endpoint.wake_seconds
    assert slept.sleep == Sleep(start_seconds=500, copy_start_seconds=320, wake_seconds=wakes)
    assert day(environment(VALID), pace=slowest).sleep is None


def test_a_day_of_the_file_is_its_profile_from_the_quiet_to_the_peak(environment: Read) -> None:
    def minutes(lines: str) -> list[float] | None:
        return read_stated_day(environment(f"{VALID}[traffic]\n{lines}").environment.traffic)

    assert minutes('profile = "spike"\n') is None
    assert minutes("peak_rps = 50\n") is None
    stated = minutes('profile = "spike"\npeak_rps = 50\nquiet_rps = 5\n')
    assert stated is not None
    assert min(stated) == pytest.approx(300)
    assert max(stated) == pytest.approx(3000, rel=0.01)
    flat = minutes('profile = "spike"\npeak_rps = 50\nquiet_rps = 50\n')
    assert flat is not None
    assert min(flat) == pytest.approx(3000)
    default = minutes('profile = "spike"\npeak_rps = 50\n')
    assert default is not None
    assert 0 < min(default) < 1500


@pytest.mark.parametrize(("rollout", "deployment"), [
    ("", PlacedDeployment(minute=7)),
    ('strategy = "rolling"\nbatch_percent = 30\nbake_minutes = 12',
     PlacedDeployment(minute=7, bake_minutes=12, batch_percent=30)),
    # Shares are of whole instances: half of three is two.
    ('strategy = "canary"\ncanary_percent = 50\nbake_minutes = 15',
     PlacedDeployment(minute=7, bake_minutes=15, last_bake_minutes=4, by_count={
         1: (100, 100), 2: (50, 100), 3: (100 * 2 / 3, 100)})),
    ('strategy = "all_at_once"\nbake_minutes = 15',
     PlacedDeployment(minute=7, bake_minutes=15, last_bake_minutes=15, by_count={
         1: (100,), 2: (100,), 3: (100,)})),
], ids=["none", "rolling", "canary", "all at once"])  # fmt: skip
def test_a_deployment_goes_as_the_rollout_says(
    environment: Read, rollout: str, deployment: PlacedDeployment
) -> None:
    table = f"\n[rollout]\n{rollout}\n" if rollout else ""
    file = environment(
        f"{VALID}max_instances = 3\nscaling.max_rps_per_instance = 40\n"
        f"start_seconds = 60{table}\n[alarms]\nwindow_minutes = 3\n"
    )
    assert day(file).deployment is None
    assert day(file, deploy_at=7).deployment == deployment
    took = estimate_deployment_seconds(file.environment, placed(file), 2)
    assert (took is None) is not bool(rollout)
    # At least a start and each bake.
    assert took is None or took >= 60 + 60 * deployment.bake_minutes


def test_what_never_sleeps_keeps_a_copy(environment: Read) -> None:
    schedule = (
        '[variants.primary.scaling]\nschedule = [{ at = "cron(0 20 * * ? *)", at_least = 0 },'
        ' { at = "cron(0 7 * * ? *)", at_least = 2 }]\n'
    )

    def awake(text: str, name: str) -> Environment:
        file = environment(text)
        return disable_sleep(file.environment, placed(file, name))

    alone = awake(SLEEPING + schedule, "primary").variants["primary"]
    assert (alone.can_sleep, alone.capacity, alone.max_instances) == (False, (1, 2), 2)
    assert alone.scaling is not None
    assert [action.at_least for action in alone.scaling.schedule] == [1, 2]
    shared = VALID.replace('model = "ranker"\n', "").replace("c5.xlarge", "c5.4xlarge") + (
        "max_instances = 2\nmin_instances = 0\n"
        "[variants.primary.components]\n"
        'a = { model = "ranker", sleep_after_minutes = 5, max_copies = 3 }\n'
        'b = { model = "ranker", sleep_after_minutes = 5, max_copies = 3 }\n'
    )
    both = awake(shared, "a").variants["primary"].components
    assert (both["a"].sleep_after_minutes, both["a"].min_copies) == (None, 1)
    assert both["b"].sleep_after_minutes == 5
