"""A fleet is started whole or not at all; requests and copies are shared by weight. No container runs."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from servable_local.aws.sagemaker import fleet as module
from servable_local.aws.sagemaker.container import ContainerLogs, Process, VariantStartError
from servable_local.aws.sagemaker.endpoint_update import (
    Stage,
    list_rollback_alarms,
    plan_stages,
    read_timeout_seconds,
)
from servable_local.aws.sagemaker.fleet import Fleet, FleetLauncher, HostedVariant, Turns
from servable_local.aws.sagemaker.instances import NO_CAPACITY, Shortage, VariantInstances
from tests.servable_local.aws.deployed_templates import IMAGE
from tests.servable_local.aws.endpoint_case import ALL_AT_ONCE, CANARY, blue_green

FIRST, SECOND = "ml.c5.xlarge", "ml.c6i.xlarge"


class Launcher:
    """A fleet launcher of an account with the models `a` and `b`, and the processes it started."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.started: list[Any] = []
        self.fails: set[str] = set()
        """Archives of variants that do not start."""
        self.fails_after: int | None = None
        """Number of processes after which no more start."""
        self.models = {name: model(Environment={"MODEL": name}) for name in "ab"}
        self.folder = folder
        host: Any = SimpleNamespace(
            find_model=self.models.get,
            aws=SimpleNamespace(),
            launch=self._launch,
            folder=folder,
            logs=ContainerLogs(folder, lambda *written: None),
            **{"shortage": Shortage(), "most_containers": 1, **settings},
        )
        self.launcher = FleetLauncher(host, "/aws/sagemaker/Endpoints/ranker")

    def _launch(self, archive: Path | None, variables: Mapping[str, str], **more: Any) -> Process:
        if archive is not None and archive.name in self.fails:
            raise VariantStartError(f"{archive.name} does not start.")
        if self.fails_after is not None and len(self.started) >= self.fails_after:
            raise VariantStartError("no more start.")
        self.started.append(Mock(archive=archive, variables=variables, more=more))
        started: Process = self.started[-1]
        return started

    def start(self, *variants: dict[str, Any], **config: Any) -> Fleet:
        given = {"EndpointConfigName": "first", "ProductionVariants": list(variants)}
        return self.launcher.start(given | config)

    def failure(self, *variants: dict[str, Any], **config: Any) -> str:
        with pytest.raises(VariantStartError) as caught:
            self.start(*variants, **config)
        return str(caught.value)


def model(**container: Any) -> dict[str, Any]:
    return {
        "PrimaryContainer": {"Image": IMAGE, "ModelDataUrl": "s3://b/model.tar.gz", **container}
    }


def variant(name: str = "primary", **more: Any) -> dict[str, Any]:
    return {"VariantName": name, "ModelName": "a", "InstanceType": FIRST, **more}


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launcher:
    monkeypatch.setattr(module, "fetch_model_data", lambda url, aws, target: target)
    return Launcher(tmp_path)


def test_a_variant_is_started_as_its_configuration_says(launcher: Launcher) -> None:
    (started,) = launcher.start(variant()).list_variants()
    instances = started.instances
    assert (started.weight, instances.desired, instances.serving_count) == (1.0, 1, 1)
    assert (started.image, started.models, started.serverless) == (IMAGE, None, None)
    assert not instances.least_outstanding
    given = variant(InitialVariantWeight="0.25", InitialInstanceCount="3")
    (started,) = launcher.start(given).list_variants()
    assert (started.weight, started.instances.serving_count) == (0.25, 3)
    for strategy, least in [("LEAST_OUTSTANDING_REQUESTS", True), ("RANDOM", False)]:
        fleet = launcher.start(variant(RoutingConfig={"RoutingStrategy": strategy}))
        assert fleet.variants["primary"].instances.least_outstanding == least

    fleet = launcher.start(variant(), ShadowProductionVariants=[variant("shadow")])
    assert ([*fleet.variants], [*fleet.shadows]) == (["primary"], ["shadow"])
    assert [hosted.name for hosted in fleet.list_variants()] == ["primary", "shadow"]


def test_a_variant_without_containers_is_in_service(tmp_path: Path) -> None:
    two: dict[str, Any] = {"Containers": [{"Image": IMAGE}, {"Image": IMAGE}]}
    for unserved in (model(), model(ModelDataUrl=None), two):
        without = Launcher(tmp_path, most_containers=0)
        without.models["a"] = unserved
        (started,) = without.start(variant(InitialInstanceCount=2)).list_variants()
        assert (started.instances.serving_count, without.started) == (2, [])

    (started,) = Launcher(tmp_path, most_containers=0).start(variant()).list_variants()
    status, _, answer = started.instances.pick().post("/invocations", b"", {}, timeout_seconds=1)
    assert (status, b"'servable-local[run]'" in answer) == (503, True)


def test_a_variant_without_its_model_or_instance_type_does_not_start(launcher: Launcher) -> None:
    assert launcher.failure(variant(ModelName="c")) == 'Could not find model "c".'
    launcher.launcher.host.shortage.set_types([FIRST])
    assert launcher.failure(variant()) == NO_CAPACITY

    serverless = {"MaxConcurrency": 5, "MemorySizeInMB": 2048}
    launcher.launcher.host.shortage.set_types([FIRST])
    given = {"VariantName": "primary", "ModelName": "a", "ServerlessConfig": serverless}
    (started,) = launcher.start(given).list_variants()
    assert started.serverless == serverless


def test_a_model_has_exactly_one_container_with_model_data(launcher: Launcher) -> None:
    one = model()["PrimaryContainer"]
    launcher.models["a"] = {"Containers": [one]}
    assert launcher.start(variant()).variants["primary"].instances.serving_count == 1
    for containers in ([one, one], [{"Image": IMAGE}]):
        launcher.models["a"] = {"Containers": containers}
        assert launcher.failure(variant()) == (
            "the local AWS serves only models with exactly one container with model data; "
            "variant primary has a different one."
        )


def test_a_fleet_that_does_not_start_says_every_reason_and_leaves_nothing(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher.fails = {"primary.tar.gz"}
    reasons = launcher.failure(variant(), variant("other"), variant("third", ModelName="c"))
    assert reasons == 'primary.tar.gz does not start. Could not find model "c".'
    assert [process.close.call_count for process in launcher.started] == [1]
    assert list(launcher.folder.iterdir()) == []

    monkeypatch.setattr(module, "fetch_model_data", Mock(side_effect=TimeoutError))
    assert launcher.failure(variant()) == "TimeoutError"


@pytest.mark.usefixtures("launcher")
def test_each_instance_has_a_container_but_many_models_or_serverless_share_one(
    tmp_path: Path,
) -> None:
    limited = Launcher(tmp_path, most_containers=2)
    limited.fails_after = 1
    assert limited.failure(variant(InitialInstanceCount=2)) == "no more start."
    assert [process.close.call_count for process in limited.started] == [1]

    serverless: dict[str, Any] = {"ServerlessConfig": {"MaxConcurrency": 5}}
    for more, count in [({}, 3), (serverless, 1)]:
        launcher = Launcher(tmp_path, most_containers=3)
        launcher.start(variant(InitialInstanceCount=3, **more))
        assert len(launcher.started) == count

    launcher = Launcher(tmp_path, most_containers=3)
    launcher.models["a"] = model(Mode="MultiModel", ModelDataUrl="s3://b/models/")
    (started,) = launcher.start(variant(InitialInstanceCount=3)).list_variants()
    (process,) = launcher.started
    assert (process.archive, process.variables["SAGEMAKER_MULTI_MODEL"]) == (None, "true")
    assert started.models is not None


def test_a_container_has_its_archive_its_variables_and_a_minute_to_start(
    launcher: Launcher,
) -> None:
    longer: dict[str, Any] = {"ContainerStartupHealthCheckTimeoutInSeconds": 120}
    for stated, seconds in [({}, 60), (longer, 120)]:
        launcher.start(variant(ModelName="b", **stated))
        process = launcher.started[-1]
        assert process.archive is not None
        assert (process.archive.name, process.variables["MODEL"]) == ("primary.tar.gz", "b")
        assert "SAGEMAKER_MULTI_MODEL" not in process.variables
        log = process.more["log"]
        assert (process.more["ready_timeout_seconds"], log.parent) == (seconds, launcher.folder)
        assert re.fullmatch(r"ranker-primary-i-[0-9a-f]{17}\.log", log.name)


POOLS = [
    {"InstanceType": FIRST, "Priority": 1},
    {"InstanceType": SECOND, "Priority": 2, "ModelNameOverride": "b"},
]


@pytest.mark.parametrize(("short", "name"), [([], "a"), ([FIRST], "b")])
def test_a_pool_names_its_model(launcher: Launcher, short: list[str], name: str) -> None:
    launcher.launcher.host.shortage.set_types(short)
    launcher.start({"VariantName": "primary", "ModelName": "a", "InstancePools": POOLS})
    assert launcher.started[0].variables["MODEL"] == name


def hosted(name: str, weight: float = 1.0, **by_type: int) -> HostedVariant:
    """A variant without containers: so many instances of each type."""
    start: Any = SimpleNamespace
    instances = VariantInstances([], sum(by_type.values()), start, tuple(by_type))
    instances.by_type.update(by_type)
    return HostedVariant(name, weight, "image:1", instances)


def fleet(tmp_path: Path, *variants: HostedVariant, shadow: HostedVariant | None = None) -> Fleet:
    return Fleet("first", variants, tmp_path / "archives", [shadow] if shadow else [])


def test_a_shadow_gets_its_share_of_requests(tmp_path: Path) -> None:
    for weight, shadow_weight, copies in [
        (1.0, 0.25, 2),
        (0.5, 0.5, 8),
        (1.0, 3.0, 8),
        (0.0, 1.0, 0),
    ]:
        answers = hosted("primary", weight)
        shadowed = fleet(tmp_path, answers, shadow=hosted("shadow", shadow_weight))
        copied = [shadowed.choose_shadow(answers) for _ in range(8)]
        assert len([copy for copy in copied if copy and copy.name == "shadow"]) == copies
    answers = hosted("primary")
    assert fleet(tmp_path, answers).choose_shadow(answers) is None


def test_shadows_are_not_counted(tmp_path: Path) -> None:
    for counts, count in [((2, 3), 5), ((0,), 1)]:
        variants = [hosted(str(number), x=most) for number, most in enumerate(counts)]
        assert fleet(tmp_path, *variants, shadow=hosted("shadow", x=4)).instance_count == count


def test_types_of_a_pool_answer_in_proportion_to_their_instances() -> None:
    mixed = hosted("primary", a=2, b=1, c=0)
    assert [mixed.choose_instance_type() for _ in range(3)] == [("a", 2), ("b", 1), ("a", 2)]
    alone = hosted("primary", a=2)
    assert (alone.pools, alone.choose_instance_type()) == ({}, None)
    assert hosted("primary", a=0, b=0).choose_instance_type() is None


def test_instances_of_a_pool_are_shared_out_and_measured() -> None:
    mixed = hosted("primary", a=2, b=1)
    containers: list[Any] = [SimpleNamespace(pid=None) for _ in range(2)]
    mixed.instances.containers = containers
    assert [types for _, types in mixed.measure_utilization()] == [["a", "b"], ["a"]]
    first = dict(mixed._utilizations)
    mixed.instances.containers = containers[1:]
    list(mixed.measure_utilization())
    kept = id(containers[1])
    assert mixed._utilizations == {kept: first[kept]}
    assert mixed._utilizations[kept] is first[kept]


def test_turns_are_mixed_in_proportion_to_weights_and_may_change() -> None:
    for weights, order in [
        ({"a": 3.0, "b": 1.0}, "aabaaaba"),
        ({"a": 1.0, "b": 1.0}, "abababab"),
        ({"a": 0.0, "b": 1.0}, "bbbbbbbb"),
        ({"a": 0.0, "b": 0.0}, "abababab"),
    ]:
        turns = Turns()
        assert "".join(turns.choose_next(weights) for _ in order) == order
    turns = Turns()
    for _ in range(10):
        turns.choose_next({"new": 0.1, "old": 0.9})
    assert {turns.choose_next({"new": 1.0, "old": 0.0}) for _ in range(10)} == {"new"}


# --- stages of an update
# Sources: https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-blue-green.html and
# https://docs.aws.amazon.com/sagemaker/latest/dg/deployment-guardrails-rolling.html
def stage(active: int, seconds: int = 60) -> Stage:
    return Stage(active, 4, seconds, "WaitIntervalInSeconds")


LAST = Stage(4, 4, 120, "TerminationWaitInSeconds")


@pytest.mark.parametrize(
    ("routing", "expected"),
    [
        (ALL_AT_ONCE, [LAST]),
        (CANARY, [stage(1), LAST]),
        (CANARY | {"CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 10}}, [stage(1), LAST]),
        (CANARY | {"CanarySize": {"Type": "CAPACITY_PERCENT", "Value": 26}}, [stage(2), LAST]),
        (CANARY | {"CanarySize": {"Type": "INSTANCE_COUNT", "Value": 3}}, [stage(3), LAST]),
        (CANARY | {"CanarySize": {"Type": "INSTANCE_COUNT", "Value": 9}}, [stage(4), LAST]),
        (CANARY | {"CanarySize": {"Type": "INSTANCE_COUNT", "Value": 0}}, [stage(1), LAST]),
        ({"Type": "LINEAR", "WaitIntervalInSeconds": 60,
          "LinearStepSize": {"Type": "INSTANCE_COUNT", "Value": 2}}, [stage(2), LAST]),
        ({"Type": "LINEAR", "LinearStepSize": {"Type": "CAPACITY_PERCENT", "Value": 10}},
         [stage(1, 0), stage(2, 0), stage(3, 0), LAST]),
    ],
)  # fmt: skip
def test_stages_of_a_blue_green_update(routing: dict[str, Any], expected: list[Stage]) -> None:
    assert plan_stages(blue_green(routing), 4) == expected


def test_stages_of_a_rolling_update() -> None:
    for kind, value, active in [
        ("INSTANCE_COUNT", 1, [1, 2, 3, 4]), ("INSTANCE_COUNT", 2, [2, 4]),
        ("INSTANCE_COUNT", 3, [3, 4]), ("CAPACITY_PERCENT", 50, [2, 4]),
    ]:  # fmt: skip
        size = {"Type": kind, "Value": value}
        policy = {"MaximumBatchSize": size, "WaitIntervalInSeconds": 60}
        assert plan_stages({"RollingUpdatePolicy": policy}, 4) == [stage(count) for count in active]


def test_a_stage_is_watched_for_its_wait() -> None:
    assert plan_stages(None, 4) == [Stage(4, 4, 0)]
    policy = {"BlueGreenUpdatePolicy": {"TrafficRoutingConfiguration": ALL_AT_ONCE}}
    assert plan_stages(policy, 4) == [Stage(4, 4, 0)]
    message = (
        "Baking for 60 seconds (WaitIntervalInSeconds) with traffic enabled on canary capacity"
    )
    assert (stage(1).share, stage(1).message) == (0.25, f"{message} of 1 instance(s).")


def test_the_way_back_is_read_where_it_is_said() -> None:
    cases: list[dict[str, Any] | None] = [None, {}, {"AutoRollbackConfiguration": {}}]
    for config in cases:
        assert list_rollback_alarms(config) == []
    assert list_rollback_alarms(blue_green(ALL_AT_ONCE)) == ["slow", "errors"]
    config = blue_green(ALL_AT_ONCE, MaximumExecutionTimeoutInSeconds=600)
    assert read_timeout_seconds(config) == 600
