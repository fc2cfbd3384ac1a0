"""A fleet is started whole or not at all; requests and copies are shared by weight. No container runs."""

import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servable_local.aws.sagemaker import fleet as module
from servable_local.aws.sagemaker.container import ContainerLogs, Process, VariantStartError
from servable_local.aws.sagemaker.fleet import Fleet, FleetLauncher, HostedVariant, Turns
from servable_local.aws.sagemaker.instances import NO_CAPACITY, Shortage, VariantInstances
from tests.servable_local.aws.deployed_templates import IMAGE

FIRST, SECOND = "ml.c5.xlarge", "ml.c6i.xlarge"


class Started:
    """A process that serves nothing."""

    url = "http://127.0.0.1:9"

    def __init__(self, archive: Path | None, variables: Mapping[str, str], **more: Any) -> None:
        self.archive, self.variables, self.more = archive, variables, more
        self.closed = False

    def close(self) -> None:
        self.closed = True


class Launcher:
    """A fleet launcher of an account with the models `a` and `b`, and the processes it started."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.started: list[Started] = []
        self.fails: set[str] = set()
        """Archives of variants that do not start."""
        self.fails_after: int | None = None
        """Number of processes after which no more start."""
        self.models = {name: model(Environment={"MODEL": name}) for name in "ab"}
        self.folder = folder
        aws: Any = SimpleNamespace()
        self.launcher = FleetLauncher(
            model=self.models.get,
            aws=aws,
            launch=self._launch,
            folder=folder,
            log_group="/aws/sagemaker/Endpoints/ranker",
            logs=ContainerLogs(folder, lambda *written: None),
            **{"shortage": Shortage(), **settings},
        )

    def _launch(self, archive: Path | None, variables: Mapping[str, str], **more: Any) -> Process:
        if archive is not None and archive.name in self.fails:
            raise VariantStartError(f"{archive.name} does not start.")
        if self.fails_after is not None and len(self.started) >= self.fails_after:
            raise VariantStartError("no more start.")
        self.started.append(Started(archive, variables, **more))
        return self.started[-1]

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
    (started,) = launcher.start(
        variant(InitialVariantWeight="0.25", InitialInstanceCount="3")
    ).list_variants()
    assert (started.weight, started.instances.serving_count) == (0.25, 3)

    fleet = launcher.start(variant(), ShadowProductionVariants=[variant("shadow")])
    assert ([*fleet.variants], [*fleet.shadows]) == (["primary"], ["shadow"])
    assert [hosted.name for hosted in fleet.list_variants()] == ["primary", "shadow"]


def test_a_variant_without_containers_is_in_service(tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = [
        model(),
        model(ModelDataUrl=None),
        {"Containers": [{"Image": IMAGE}, {"Image": IMAGE}]},
    ]
    for unserved in cases:
        without = Launcher(tmp_path, most_containers=0)
        without.models["a"] = unserved
        (started,) = without.start(variant(InitialInstanceCount=2)).list_variants()
        assert (started.instances.serving_count, without.started) == (2, [])

    (started,) = Launcher(tmp_path, most_containers=0).start(variant()).list_variants()
    status, _, answer = started.instances.pick().post("/invocations", b"", {}, timeout_seconds=1)
    assert (status, b"'servable-local[run]'" in answer) == (503, True)


@pytest.mark.parametrize(
    ("given", "seconds"), [({}, 60), ({"ContainerStartupHealthCheckTimeoutInSeconds": 120}, 120)]
)
def test_a_container_has_a_minute_to_answer_its_ping_unless_the_configuration_says_more(
    launcher: Launcher, given: dict[str, Any], seconds: float
) -> None:
    launcher.start(variant(**given))
    more = launcher.started[0].more
    assert (more["ready_timeout_seconds"], more["log"].parent) == (seconds, launcher.folder)
    assert re.fullmatch(r"ranker-primary-i-[0-9a-f]{17}\.log", more["log"].name)


@pytest.mark.parametrize(
    ("strategy", "least"), [("LEAST_OUTSTANDING_REQUESTS", True), ("RANDOM", False), (None, False)]
)
def test_the_routing_strategy(launcher: Launcher, strategy: str | None, least: bool) -> None:
    given: dict[str, Any] = {"RoutingConfig": {"RoutingStrategy": strategy}} if strategy else {}
    (started,) = launcher.start(variant(**given)).list_variants()
    assert started.instances.least_outstanding == least


def test_a_variant_without_its_model_or_instance_type_does_not_start(launcher: Launcher) -> None:
    assert launcher.failure(variant(ModelName="c")) == 'Could not find model "c".'
    launcher.launcher.shortage.set_types([FIRST])
    assert launcher.failure(variant()) == NO_CAPACITY

    serverless = {"MaxConcurrency": 5, "MemorySizeInMB": 2048}
    launcher.launcher.shortage.set_types([FIRST])
    given = {"VariantName": "primary", "ModelName": "a", "ServerlessConfig": serverless}
    (started,) = launcher.start(given).list_variants()
    assert started.serverless == serverless


@pytest.mark.parametrize(
    "containers",
    [
        {"Containers": [{"ModelDataUrl": "s3://b/k"}, {"ModelDataUrl": "s3://b/k"}]},
        {"Containers": [{"Image": IMAGE}]},
    ],
    ids=["two containers", "no model data"],
)
def test_a_wrong_kind_of_model_is_named(launcher: Launcher, containers: dict[str, Any]) -> None:
    launcher.models["a"] = containers
    assert launcher.failure(variant()) == (
        "the local AWS serves only models with exactly one container with model data; "
        "variant primary has a different one."
    )


def test_a_model_of_a_list_of_one_container_is_served(launcher: Launcher) -> None:
    launcher.models["a"] = {"Containers": [model()["PrimaryContainer"]]}
    assert launcher.start(variant()).variants["primary"].instances.serving_count == 1


def test_every_variant_that_does_not_start_is_a_reason(launcher: Launcher) -> None:
    launcher.fails = {"primary.tar.gz"}
    reasons = launcher.failure(variant(), variant("other"), variant("third", ModelName="c"))
    assert reasons == 'primary.tar.gz does not start. Could not find model "c".'


def test_a_failure_without_words(launcher: Launcher, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(url: str, aws: Any, target: Path) -> Path:
        raise TimeoutError

    monkeypatch.setattr(module, "fetch_model_data", fails)
    assert launcher.failure(variant()) == "TimeoutError"


def test_a_fleet_that_does_not_start_leaves_nothing(launcher: Launcher) -> None:
    launcher.fails = {"other.tar.gz"}
    launcher.failure(variant(), variant("other"))
    assert [process.closed for process in launcher.started] == [True]
    assert list(launcher.folder.iterdir()) == []


def test_many_models_share_one_container(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "fetch_model_data", lambda url, aws, target: target)
    launcher = Launcher(tmp_path, most_containers=2)
    launcher.fails_after = 1
    assert launcher.failure(variant(InitialInstanceCount=2)) == "no more start."
    assert [process.closed for process in launcher.started] == [True]
    launcher = Launcher(tmp_path, most_containers=3)
    launcher.models["a"] = model(Mode="MultiModel", ModelDataUrl="s3://b/models/")
    (started,) = launcher.start(variant(InitialInstanceCount=3)).list_variants()
    (process,) = launcher.started
    assert (process.archive, process.variables["SAGEMAKER_MULTI_MODEL"]) == (None, "true")
    assert started.models is not None


@pytest.mark.parametrize(
    ("more", "containers"),
    [
        ({}, 3),
        ({"ServerlessConfig": {"MaxConcurrency": 5}}, 1),
    ],
)
def test_each_instance_has_a_container_and_a_serverless_variant_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], containers: int
) -> None:
    monkeypatch.setattr(module, "fetch_model_data", lambda url, aws, target: target)
    launcher = Launcher(tmp_path, most_containers=3)
    launcher.start(variant(InitialInstanceCount=3, **more))
    assert len(launcher.started) == containers


def test_a_container_has_its_archive_and_variables(launcher: Launcher) -> None:
    launcher.start(variant(ModelName="b"))
    (process,) = launcher.started
    assert process.archive is not None
    assert (process.archive.name, process.variables["MODEL"]) == ("primary.tar.gz", "b")
    assert "SAGEMAKER_MULTI_MODEL" not in process.variables


POOLS = [
    {"InstanceType": FIRST, "Priority": 1},
    {"InstanceType": SECOND, "Priority": 2, "ModelNameOverride": "b"},
]


@pytest.mark.parametrize(("short", "name"), [([], "a"), ([FIRST], "b")])
def test_a_pool_names_its_model(launcher: Launcher, short: list[str], name: str) -> None:
    launcher.launcher.shortage.set_types(short)
    launcher.start({"VariantName": "primary", "ModelName": "a", "InstancePools": POOLS})
    assert launcher.started[0].variables["MODEL"] == name


def hosted(name: str, weight: float = 1.0, **by_type: int) -> HostedVariant:
    """A variant without containers: so many instances of each type."""
    start: Any = SimpleNamespace
    instances = VariantInstances([], sum(by_type.values()), start, tuple(by_type))
    instances.by_type.update(by_type)
    return HostedVariant(name, weight, "image:1", instances)


def chosen(weights: dict[str, float], times: int) -> str:
    turns = Turns()
    return "".join(turns.choose_next(weights) for _ in range(times))


@pytest.mark.parametrize(
    ("weights", "order"),
    [
        ({"a": 3, "b": 1}, "aabaaaba"),
        ({"a": 1, "b": 1}, "abababab"),
        ({"a": 0, "b": 1}, "bbbbbbbb"),
        ({"a": 0, "b": 0}, "abababab"),
    ],
)
def test_turns_are_in_proportion_to_weights(weights: dict[str, float], order: str) -> None:
    assert chosen(weights, 8) == order


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


@pytest.mark.parametrize(("counts", "count"), [((2, 3), 5), ((0,), 1)])
def test_shadows_are_not_counted(tmp_path: Path, counts: tuple[int, ...], count: int) -> None:
    variants = [hosted(str(number), x=most) for number, most in enumerate(counts)]
    assert fleet(tmp_path, *variants, shadow=hosted("shadow", x=4)).instance_count == count


@pytest.mark.parametrize(
    ("kinds", "kept"),
    [
        ((), (1.0, 1)),
        (("DesiredWeight",), (0.5, 1)),
        (("DesiredInstanceCount",), (1.0, 3)),
        (("DesiredWeight", "DesiredInstanceCount"), (0.5, 3)),
    ],
)
def test_an_update_keeps_counts_and_weights_as_it_is_asked_to(
    tmp_path: Path, kinds: tuple[str, ...], kept: tuple[float, int]
) -> None:
    old, new = hosted("primary", 0.5, x=3), hosted("primary", 1.0, x=1)
    added = hosted("added", 1.0, x=1)
    fleet(tmp_path, new, added).retain(fleet(tmp_path, old), frozenset(kinds))
    assert (new.weight, new.instances.desired) == kept
    assert (added.weight, added.instances.desired) == (1.0, 1)


def test_types_of_a_pool_answer_in_proportion_to_their_instances() -> None:
    mixed = hosted("primary", a=2, b=1, c=0)
    assert [mixed.choose_instance_type() for _ in range(3)] == [("a", 2), ("b", 1), ("a", 2)]
    assert (hosted("primary", a=2).pools, hosted("primary", a=2).choose_instance_type()) == (
        {},
        None,
    )
    assert hosted("primary", a=0, b=0).choose_instance_type() is None


def test_instances_of_a_pool_are_shared_out_and_measured() -> None:
    mixed = hosted("primary", a=2, b=1)
    containers: list[Any] = [SimpleNamespace(pid=None) for _ in range(2)]
    mixed.instances.containers = containers
    assert [types for _, types in mixed.measure_utilization()] == [["a", "b"], ["a"]]

    watched = hosted("primary", a=2)
    containers = [SimpleNamespace(pid=None) for _ in range(2)]
    watched.instances.containers = containers
    list(watched.measure_utilization())
    first = dict(watched._utilizations)
    watched.instances.containers = containers[1:]
    list(watched.measure_utilization())
    kept = id(containers[1])
    assert watched._utilizations == {kept: first[kept]}
    assert watched._utilizations[kept] is first[kept]


WEIGHTS = st.dictionaries(
    st.sampled_from("abcd"), st.integers(0, 10).map(float), min_size=1
).filter(lambda weights: any(weights.values()))


def _order(weights: dict[str, float], count: int) -> list[str]:
    turns = Turns()
    return [turns.choose_next(weights) for _ in range(count)]


@given(WEIGHTS)
def test_one_round_has_exactly_the_weights_in_the_same_order(weights: dict[str, float]) -> None:
    found = Counter(_order(weights, int(sum(weights.values()))))
    assert found == Counter({name: int(weight) for name, weight in weights.items()})
    assert _order(weights, 30) == _order(weights, 30)


def test_turns_are_mixed_equal_and_may_change() -> None:
    order = _order({"a": 1.0, "b": 1.0}, 10)
    assert all(one != other for one, other in pairwise(order))
    assert Counter(_order({"a": 0.0, "b": 0.0}, 10)) == {"a": 5, "b": 5}

    turns = Turns()
    for _ in range(10):
        turns.choose_next({"new": 0.1, "old": 0.9})
    assert {turns.choose_next({"new": 1.0, "old": 0.0}) for _ in range(10)} == {"new"}
