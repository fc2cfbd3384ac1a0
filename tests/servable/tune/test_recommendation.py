"""What follows from a measurement, and what does not when it was made on this computer."""

import dataclasses
import tomllib

from infra.parameters.environment import Environment
from servable.load.objective import Knee
from servable.load.page import LoadContent
from servable.measured.measurement import MeasuredTarget
from servable.measured.precision import Interval, Latencies
from servable.project.environment_edit import KeyChange, apply_changes, format_diff
from servable.tune.recommendation import Recommendation, describe_result, recommend
from servable.tune.search.recommended import ChosenPoint, Confirmation
from tests.checkouts import ROOT
from tests.servable.tune.example_content import ENVIRONMENT, OBJECTIVE
from tests.servable.tune.measured import ASKED, curve, interval, step

IN_AWS = dataclasses.replace(ASKED, target="sagemaker", instance_type="ml.c5.xlarge")
CHOICE = ChosenPoint(
    point={"tfs_processes": 4, "gunicorn_workers": 8, "batching.max_batch_size": 64},
    value=100.0,
    start={"tfs_processes": 1, "gunicorn_workers": 8, "batching.max_batch_size": 8},
    noise=0.05,
    confirmation=Confirmation(pairs=6, gain=Interval(value=0.2, low=0.1, high=0.3)),
)

UNSURE = dataclasses.replace(
    CHOICE,
    confirmation=Confirmation(pairs=7, gain=Interval(value=0.05, low=-0.02, high=0.12), needed=19),
)
EFFECTS = {
    "tfs_processes": Interval(value=0.7, low=0.6, high=0.8),
    "batching.max_batch_size": Interval(value=1.0, low=0.9, high=1.1),
}


def recommended(
    asked: MeasuredTarget = ASKED,
    choice: ChosenPoint = CHOICE,
    *,
    force: bool = False,
    environment: Environment = ENVIRONMENT,
) -> Recommendation:
    latencies = Latencies.from_milliseconds([*[10.0] * 89, *[40.0] * 9, *[87.3] * 2])
    measured = LoadContent(
        label="",
        curve=dataclasses.replace(curve(step(8, 100.0, latencies=latencies)), asked=asked),
        knee=Knee(objective=OBJECTIVE, load=interval(8), rps=interval(100.0), bounded=True),
    )
    return recommend(
        environment, "primary", measured, choice=choice, effects=EFFECTS, force_local_numbers=force
    )


def _keys(found: Recommendation) -> dict[str, object]:
    return {".".join(change.key): change.value for change in found.changes}


def test_changed_settings_that_are_shown_to_be_better_are_written_with_their_effect() -> None:
    assert _keys(recommended()) == {
        "variants.primary.container.tfs_processes": 4,
        "variants.primary.container.batching.max_batch_size": 64,
    }
    assert not recommended(choice=UNSURE).changes
    assert not recommended(choice=REFUTED).changes
    moved = dataclasses.replace(
        CHOICE,
        point={**CHOICE.point, "instance_type": "ml.c5.4xlarge"},
        start={**CHOICE.start, "instance_type": "ml.c5.xlarge"},
    )
    assert _keys(recommended(choice=moved)) == {
        "variants.primary.instance_type": "ml.c5.4xlarge",
        "variants.primary.container.tfs_processes": 4,
        "variants.primary.container.gunicorn_workers": 8,
        "variants.primary.container.batching.max_batch_size": 64,
    }
    reasons = {change.key[-1]: change.reason for change in recommended().changes}
    assert reasons == {
        "tfs_processes": "with 1 as today, the others as chosen: -30% (-40% to -20%)",
        "max_batch_size": (
            "with 8 as today, the others as chosen: +0% (-10% to +10%); not shown by itself"
        ),
    }


def test_a_local_measurement_sets_what_depends_on_the_machine_only_if_forced() -> None:
    for prefix in ["variants.primary.scaling", "alarms", "rollout"]:
        assert not [key for key in _keys(recommended()) if key.startswith(prefix)]
    assert recommended().withheld
    assert "variants.primary.scaling.max_rps_per_instance" in _keys(recommended(force=True))

    found, changes = _keys(recommended(IN_AWS)), recommended(IN_AWS).changes
    reasons = {change.key[-1]: change.reason for change in changes}
    assert reasons["safety_factor"] == "target 2,940 invocations per minute and instance"
    wanted = {
        "variants.primary.scaling.max_rps_per_instance": 98.0,
        # 1000 requests/s over 98 x 0.5.
        "variants.primary.max_instances": 21,
        "variants.primary.min_instances": 1,
        "alarms.p99_latency_ms": 88.0,
        # 500 requests of a tenth of 20 a second: five minutes; the alarm needs three and two.
        "rollout.bake_minutes": 6,
    }
    assert found | wanted == found
    # Two, as the file has at least, although one would do for the peak.
    file = ENVIRONMENT.model_dump(exclude_unset=True) | {"traffic": {"peak_rps": 10}}
    file["variants"]["primary"] |= {"min_instances": 2, "max_instances": 3}
    found = _keys(recommended(IN_AWS, environment=Environment.model_validate(file)))
    assert "variants.primary.min_instances" not in found
    assert found["variants.primary.max_instances"] == 2


def test_the_headline_says_what_was_shown() -> None:
    assert describe_result(CHOICE, "throughput") == (
        "The chosen settings together are better than today's: "
        "+20.0% requests/s, 99 % interval +10.0% to +30.0%."
    )
    assert "when they were measured again" in describe_result(REFUTED, "throughput")
    assert describe_result(UNSURE, "throughput").startswith(
        "Today's settings stay: no difference above 12.0% was shown (the best of the others: +5.0% "
    )
    said = describe_result(UNSURE, "throughput")
    assert "12 more are needed; stop other programs, or pass --new and 2.8 times the trials" in said
    none = dataclasses.replace(CHOICE, confirmation=Confirmation())
    assert "too few trials were left to compare" in describe_result(none, "throughput")


REFUTED = dataclasses.replace(CHOICE, confirmation=Confirmation(pairs=1, refuted=True))


NOTE = "measured 2026-11-21, servable tune"
TEXT = """\
# the file's own words
[variants.primary.container]
tfs_processes    = 4   # one for each four vCPUs
gunicorn_workers = 16
batching         = { max_batch_size = 512, timeout_micros = 1000 }   # 500 candidates

[alarms]
p99_latency_ms = 100
"""


def change(key: str, value: object) -> KeyChange:
    return KeyChange(key=tuple(key.split(".")), value=value, reason="")


CHANGES = [
    change("variants.primary.container.tfs_processes", 8),
    change("variants.primary.container.onednn", False),
    change("variants.primary.container.batching.timeout_micros", 0),
    change("variants.primary.scaling.max_rps_per_instance", 98.5),
]


def test_every_environment_file_says_what_was_recommended() -> None:
    for file in (ROOT / "environments").glob("*.toml"):
        after = tomllib.loads(apply_changes(file.read_text(encoding="utf-8"), CHANGES, note=NOTE))
        variant = after["variants"]["primary"]
        assert (
            variant["container"]["tfs_processes"],
            variant["container"]["onednn"],
            variant["container"]["batching"]["timeout_micros"],
            variant["scaling"]["max_rps_per_instance"],
        ) == (8, False, 0, 98.5)


def test_comments_stay_and_only_what_is_recommended_changes() -> None:
    once = apply_changes(TEXT, CHANGES, note=NOTE)
    assert apply_changes(once, CHANGES, note=NOTE) == once
    for comment in ["# the file's own words", "# one for each four vCPUs", "# 500 candidates"]:
        assert comment in once
    (line,) = (one for one in once.splitlines() if "max_rps" in one)
    assert line.endswith(f"# {NOTE}")

    after = apply_changes(TEXT, CHANGES[:1], note=NOTE).splitlines()
    kept = [one for one in TEXT.splitlines() if "tfs_processes" not in one]
    assert [one for one in after if "tfs_processes" not in one] == kept

    same = [change("variants.primary.container.tfs_processes", 4)]
    assert apply_changes(TEXT, same, note=NOTE) == TEXT
    diff = format_diff("environments/prod.toml", "a\n", "b\n")
    assert diff.startswith("--- environments/prod.toml")
