"""A container's setting is a key or its variable: both are read into the key, and the later layer wins."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
import tomlkit
from hypothesis import HealthCheck, example, given, settings

from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded, ValidFile, load
from infra.parameters.variant import Variant
from infra.policy.container import (
    BATCHING_SWITCH,
    DEFAULT_MODEL_NAME,
    SETTINGS,
    ContainerSettings,
    build_variables,
)
from infra.preflight.check import check
from tests.conftest import VALID, valid

TABLE = "variants.primary"
WORKERS = "SAGEMAKER_GUNICORN_WORKERS"
SIZE = "SAGEMAKER_TFS_MAX_BATCH_SIZE"
SEVERAL = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)


def read(project: Path, *layers: dict[str, Any], **overrides: str) -> Loaded:
    """The last of the files, each of which extends the one before it; values of [variants.primary]."""
    folder = project / "environments"
    *bases, last = [f"{number}-base" for number in range(len(layers) - 1)] + ["prod"]
    for number, (name, layer) in enumerate(zip([*bases, last], layers, strict=True)):
        values: dict[str, Any] = (
            tomllib.loads(VALID) if number == 0 else {"extends": f"{number - 1}-base"}
        )
        table = values.setdefault("variants", {}).setdefault("primary", {})
        table |= layer
        (folder / f"{name}.toml").write_text(tomlkit.dumps(values), encoding="utf-8")
    given = {f"{TABLE}.{key}".replace("__", "."): text for key, text in overrides.items()}
    return load(project, folder, {"prod": given})[0]


def primary(loaded: Loaded) -> Variant:
    return valid(loaded).environment.variants["primary"]


def errors(loaded: Loaded) -> list[str]:
    return [str(one) for one in loaded.findings if one.severity is Severity.ERROR]


# Every key with values, as its variable has them too.
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "tfs_processes": st.integers(1, 64),
        "inter_op_threads": st.integers(0, 64),
        "intra_op_threads": st.integers(0, 64),
        "wait_time_seconds": st.integers(1, 600),
        "gpu_memory_margin": st.floats(-3, 0.9).map(lambda margin: round(margin, 3)),
        "gunicorn_workers": st.integers(1, 64),
        "gunicorn_threads": st.integers(1, 64),
        "gunicorn_worker_class": st.sampled_from(["sync", "gevent", "gthread"]),
        "gunicorn_timeout_seconds": st.integers(1, 600),
        "gunicorn_log_level": st.sampled_from(["debug", "error"]),
        "nginx_read_timeout_seconds": st.integers(1, 600),
        "nginx_log_level": st.sampled_from(["warn", "crit"]),
        "omp_threads": st.integers(0, 64),
        "onednn": st.booleans(),
        "transport": st.sampled_from(["auto", "rest", "grpc"]),
        "grpc_from_bytes": st.integers(0, 1 << 20),
        "request_timeout_seconds": st.integers(1, 600),
        "timing_header": st.booleans(),
        "batching": st.fixed_dictionaries(
            {},
            optional={"max_batch_size": st.integers(0, 4096),
                      "timeout_micros": st.integers(0, 99_999), "batch_threads": st.integers(1, 64),
                      "max_enqueued_batches": st.integers(1, 64)},
        ),
    },
)  # fmt: skip


def pasted(container: dict[str, Any]) -> dict[str, str]:
    """The variables of these keys, without those of batching that its table leaves to the image."""
    written = build_variables(ContainerSettings.model_validate(container), default_model=None)
    stated = set(container.get("batching", {}))
    return {
        name: text
        for name, text in written.items()
        if not SETTINGS[name].startswith("batching.") or SETTINGS[name][9:] in stated
    }


def dotted(container: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """(dotted key, TOML) of each key, as on the command line."""
    for key, value in container.items():
        if isinstance(value, dict) and value:
            yield from ((f"{key}.{inner}", str(each)) for inner, each in value.items())
        else:
            yield key, tomlkit.item(value).as_string() or "{}"


def merged(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    both = {**first, **second}
    if "batching" in first and "batching" in second:
        both["batching"] = first["batching"] | second["batching"]
    return both


def test_every_key_has_its_variable_and_a_strategy_here() -> None:
    keys = {key for key in SETTINGS.values() if "." not in key}
    assert keys == set(ContainerSettings.model_fields)
    assert len(SETTINGS) == len(set(SETTINGS.values()))


@pytest.mark.long
@SEVERAL
@given(VALUES, VALUES, st.sampled_from(["kk", "kv", "vk", "vv"]))
@example({"batching": {"max_batch_size": 5}}, {"batching": {}}, "kv")
@example({"batching": {}}, {"batching": {"batch_threads": 5}}, "vk")
@example({"gunicorn_workers": 2}, {"gunicorn_workers": 4}, "vk")
def test_the_later_file_wins_in_either_spelling(
    project: Path, first: dict[str, Any], second: dict[str, Any], spelt: str
) -> None:
    layers: list[dict[str, Any]] = [
        {"container": values} if how == "k" else {"environment": pasted(values) | {"OWN": how}}
        for values, how in zip((first, second), spelt, strict=True)
    ]
    found = primary(read(project, *layers))
    assert found.container == ContainerSettings.model_validate(merged(first, second))
    # A construct reads the dictionary as the loader does.
    built = Variant.model_validate({"model": "m", "environment": pasted(first) | {"OWN": "1"}})
    assert built.container == ContainerSettings.model_validate(first)
    assert built.environment == {"OWN": "1"}
    own = {"OWN": "v"} if "v" in spelt else {}
    assert found.environment == own


@pytest.mark.long
@SEVERAL
@given(VALUES, VALUES, st.sampled_from(["kk", "kv", "vk", "vv"]))
@example({"gunicorn_workers": 2}, {"gunicorn_workers": 4}, "vk")
@example({"batching": {"batch_threads": 2}}, {"batching": {"batch_threads": 4}}, "vk")
def test_an_override_wins_in_either_spelling(
    project: Path, first: dict[str, Any], second: dict[str, Any], spelt: str
) -> None:
    file, option = [*spelt]
    layer = {"container": first} if file == "k" else {"environment": pasted(first)}
    given = {f"environment.{name}": text for name, text in pasted(second).items()}
    if option == "k":
        given = {f"container.{key}": text for key, text in dotted(second)}
    found = primary(read(project, layer, **given))
    wanted = merged(first, second)
    if option == "k" and second.get("batching") == {}:  # an empty table replaces a whole one
        wanted["batching"] = {}
    assert found.container == ContainerSettings.model_validate(wanted)
    assert found.environment == {}


def test_one_setting_in_both_spellings_of_a_file_is_an_error_naming_both(project: Path) -> None:
    texts = {"gunicorn_worker_class": "sync", "transport": "rest"}
    texts |= {"gunicorn_log_level": "info", "nginx_log_level": "info"}
    for variable, key in SETTINGS.items():
        value: Any = texts.get(key, {} if key == "batching" else 1)
        table = {"batching": {key.removeprefix("batching."): 1}} if "." in key else {key: value}
        text = "true" if key == "batching" else str(value)
        layer = {"container": table, "environment": {variable: text}}
        same = f"environment.{variable} and container.{key} set the same thing"
        wanted = f"{TABLE}.environment.{variable}: {same}; remove it, or take out container.{key}"
        assert f"environments/prod.toml: {wanted}" in errors(read(project, layer))
        with pytest.raises(
            ValueError, match=f"{variable}.* and container.{key} set the same thing"
        ):
            Variant.model_validate({"model": "m", **layer})
    # In a base too, whatever the file itself states.
    later = {"container": {"tfs_processes": 2}}
    assert f"environments/0-base.toml: {wanted}" in errors(read(project, layer, later))


def test_one_setting_twice_on_the_command_line_is_an_error(project: Path) -> None:
    both = {f"environment__{WORKERS}": "4", "container__gunicorn_workers": "2"}
    assert errors(read(project, {}, **both)) == [
        f"-c prod: {TABLE}.environment.{WORKERS}: environment.{WORKERS} and "
        "container.gunicorn_workers set the same thing; remove it, or take out container.gunicorn_workers"
    ]


def test_an_override_without_a_value_takes_the_setting_out(project: Path) -> None:
    for layer in ({"environment": {WORKERS: "4"}}, {"container": {"gunicorn_workers": 4}}):
        for spelling in (f"environment__{WORKERS}", "container__gunicorn_workers"):
            found = primary(read(project, layer, **{spelling: ""}))
            assert (found.container, found.environment) == (ContainerSettings(), {})


def test_a_later_file_switches_batching_off_and_on_again(project: Path) -> None:
    on, off = ({"environment": {BATCHING_SWITCH: text}} for text in ("True", "false"))
    sized = {"environment": {BATCHING_SWITCH: "true", SIZE: "64"}}
    assert primary(read(project, {"container": {"batching": {}}}, off)).container.batching is None
    assert primary(read(project, off, {"container": {"batching": {}}})).container.batching
    found = primary(read(project, sized, off))
    assert found.container.batching is None
    assert found.environment == {SIZE: "64"}
    again = primary(read(project, sized, off, on)).container.batching
    assert again is not None
    assert again.max_batch_size == 64


def test_a_size_alone_switches_no_batching_on_as_in_the_image(project: Path) -> None:
    found = primary(read(project, {"environment": {SIZE: "64"}}))
    assert found.container.batching is None
    assert found.environment == {SIZE: "64"}


def test_a_value_the_container_does_not_take_names_key_variable_and_line(project: Path) -> None:
    for variable, text, problem, allowed in [
        (WORKERS, "four", "'four' is not a whole number", "0 or more and 1000000 or less"),
        (WORKERS, "-1", "-1 is out of range", "0 or more and 1000000 or less"),
        (BATCHING_SWITCH, "1", "'1' is not true or false", "true, false"),
        ("SAGEMAKER_GUNICORN_WORKER_CLASS", "fork", "'fork' is not known", "sync, gevent"),
    ]:
        (found,) = read(project, {"environment": {variable: text}}).findings
        assert found.written_key == f"{TABLE}.environment.{variable}"
        assert str(found).startswith(
            f"environments/prod.toml: {TABLE}.container.{SETTINGS[variable]} ({variable}): {problem}"
        )
        assert allowed in found.allowed
        with pytest.raises(ValueError, match=f"{variable}.*{text}"):
            Variant.model_validate({"model": "m", "environment": {variable: text}})

    found = check(read(project, {"environment": {"SAGEMAKER_GUNICORN_THREADS": "4"}}))
    (about,) = [one for one in found if one.rule == "workers-without-code"]
    assert f"{TABLE}.container.gunicorn_threads (SAGEMAKER_GUNICORN_THREADS): " in str(about)
    assert about.file == "environments/prod.toml"
    assert about.as_json()["variable"] == "SAGEMAKER_GUNICORN_THREADS"


def test_a_list_of_openmp_threads_is_a_variable_that_replaces_the_key(project: Path) -> None:
    nested = {"environment": {"OMP_NUM_THREADS": "4,2"}}
    found = primary(read(project, {"container": {"omp_threads": 3}}, nested))
    assert (found.container.omp_threads, found.environment) == (None, {"OMP_NUM_THREADS": "4,2"})
    found = primary(read(project, nested, {"container": {"omp_threads": 3}}))
    assert (found.container.omp_threads, found.environment) == (3, {})


def test_components_and_batches_have_the_same_tables(project: Path) -> None:
    text = (
        VALID.replace('model = "ranker"\n', "")
        + f"""
components.one = {{ model = "ranker", environment = {{ {WORKERS} = "4" }} }}
[batch.nightly]
model = "ranker"
instance_type = "ml.c5.xlarge"
input = "s3://bucket/rows/"
output = "s3://bucket/results/"
content_type = "text/csv"
environment = {{ {WORKERS} = "5" }}
"""
    )
    (project / "environments" / "prod.toml").write_text(text)
    environment = valid(load(project, project / "environments")[0]).environment
    assert environment.serving_variants["one"].container.gunicorn_workers == 4
    assert environment.batch["nightly"].container.gunicorn_workers == 5


def warnings(loaded: Loaded) -> list[Finding]:
    return [one for one in loaded.findings if one.severity is Severity.WARNING]


def test_the_old_name_is_read_with_a_warning(project: Path) -> None:
    old = read(project, {"variables": {"TABLE": "users", WORKERS: "4"}})
    assert [str(one) for one in warnings(old)] == [
        f"environments/prod.toml: {TABLE}.variables: variables was renamed environment, and the next "
        f"release rejects it; write [{TABLE}.environment]"
    ]
    assert primary(old).environment == {"TABLE": "users"}
    assert primary(old).container.gunicorn_workers == 4
    # An override, and a base.
    option = read(project, {}, variables__TABLE="users")
    assert [one.file for one in warnings(option)] == [f"-c prod.{TABLE}.variables.TABLE"]
    assert primary(option).environment == {"TABLE": "users"}
    merged_files = read(project, {"variables": {"A": "1", "B": "1"}}, {"environment": {"B": "2"}})
    assert primary(merged_files).environment == {"A": "1", "B": "2"}
    # Next to an error, it comes second, and the file is as invalid as without it.
    wrong = read(project, {"variables": {"TABLE": "users"}, "max_instances": "four"})
    assert [one.severity for one in wrong.findings] == [Severity.ERROR, Severity.WARNING]
    assert not isinstance(wrong, ValidFile)


def test_both_names_in_one_file_are_an_error(project: Path) -> None:
    both = read(project, {"variables": {"A": "1"}, "environment": {"B": "2"}})
    assert errors(both) == [
        f"environments/prod.toml: {TABLE}.variables: variables and environment are the same table; "
        f"move its entries to [{TABLE}.environment]"
    ]


def test_the_default_model_is_no_setting(project: Path) -> None:
    found = primary(read(project, {"environment": {DEFAULT_MODEL_NAME: "ranker"}}))
    assert found.environment == {DEFAULT_MODEL_NAME: "ranker"}
