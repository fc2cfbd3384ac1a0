"""What the start script makes of the container's variables, and of those that we render."""

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given

from infra.policy.container import ContainerSettings, build_variables
from infra.policy.sizing import find_default_wait, find_real_wait
from servable_local.container.image_code import find_image_code
from servable_local.container.settings import SettingsError, list_unused_variables, read_settings
from tests.parameters.test_container_environment import VALUES


def test_odd_values_with_which_the_image_serves_are_taken() -> None:
    assert read_settings({"SAGEMAKER_TFS_INTER_OP_PARALLELISM": "0"}).inter_op_threads == 0
    for name, text in [
        ("SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS", "0"),
        ("SAGEMAKER_TFS_NGINX_LOGLEVEL", ""),
        ("SAGEMAKER_TFS_INTER_OP_PARALLELISM", ""),
        ("SAGEMAKER_GUNICORN_WORKER_CLASS", "gevent "),
        ("SAGEMAKER_SAFE_PORT_RANGE", "9000 - 9010-x"),
        ("SAGEMAKER_TFS_DEFAULT_MODEL_NAME", "None"),
        ("OMP_NUM_THREADS", "abc"),
    ]:
        read_settings({name: text})


def test_a_value_that_the_image_refuses_or_hangs_on_is_refused_by_name() -> None:
    for name, text in [
        ("SAGEMAKER_TFS_ENABLE_BATCHING", "1"),
        ("SAGEMAKER_MULTI_MODEL", "yes"),
        ("SAGEMAKER_TFS_INSTANCE_COUNT", "0"),
        ("SAGEMAKER_TFS_INSTANCE_COUNT", "two"),
        ("SAGEMAKER_TFS_INTER_OP_PARALLELISM", " 1"),
        ("SAGEMAKER_TFS_WAIT_TIME_SECONDS", "0"),
        ("SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS", "x"),
        ("SAGEMAKER_BIND_TO_PORT", "http"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "9000"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "a-b"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "9000-70000"),
    ]:
        with pytest.raises(SettingsError, match=f"{name}: '{text}' is not accepted; allowed: "):
            read_settings({name: text})
    with pytest.raises(SettingsError, match="'9000-9001' has too few ports for 1 model servers"):
        read_settings({"SAGEMAKER_SAFE_PORT_RANGE": "9000-9001"})
    assert read_settings({"SAGEMAKER_SAFE_PORT_RANGE": "9000-9002"}).port_range == (9000, 9002)


def test_a_value_for_gunicorn_is_refused_where_there_is_code_alone() -> None:
    for name, text in [
        ("SAGEMAKER_GUNICORN_WORKERS", "abc"),
        ("SAGEMAKER_GUNICORN_THREADS", "-1"),
        ("SAGEMAKER_GUNICORN_WORKER_CLASS", "eventlet"),
        ("SAGEMAKER_GUNICORN_LOGLEVEL", ""),
        ("SAGEMAKER_GUNICORN_LOGLEVEL", "two words"),
        ("SAGEMAKER_GUNICORN_TIMEOUT_SECONDS", "0"),
    ]:
        read_settings({name: text}, gunicorn=False)
        with pytest.raises(SettingsError, match=name):
            read_settings({name: text})
        with pytest.raises(SettingsError, match=name):
            read_settings({name: text, "SAGEMAKER_MULTI_MODEL": "true"}, gunicorn=False)
    with pytest.raises(SettingsError, match="allowed: sync, gevent, gthread"):
        read_settings({"SAGEMAKER_GUNICORN_WORKER_CLASS": "tornado"})
    name = "SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS"
    with pytest.raises(SettingsError, match=name):
        read_settings({name: "0", "SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": "0"}, gunicorn=False)


def test_multi_model_mode_runs_on_the_class_asked_for_or_the_images() -> None:
    variables = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_GUNICORN_WORKER_CLASS": "sync"}
    assert read_settings(variables).worker_class == "sync"
    assert read_settings({"SAGEMAKER_MULTI_MODEL": "true"}).worker_class == "gevent"
    for tensorflow, worker_class in [("2.19", "gthread"), ("2.20", "gevent")]:
        variables = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_TFS_VERSION": tensorflow}
        assert read_settings(variables).worker_class == worker_class
    assert read_settings({}).read_timeout_seconds == 60
    for seconds, waits in [("90", 90), ("9", 60)]:
        settings = read_settings({"SAGEMAKER_GUNICORN_TIMEOUT_SECONDS": seconds})
        assert settings.read_timeout_seconds == waits


def test_the_wait_for_a_model_is_the_images_that_deployments_are_advised_by() -> None:
    for text, waits in [("6", 3.0), ("50", 25.4), ("60", 51.0), ("300", 204.6), ("1", 0.6)]:
        settings = read_settings({"SAGEMAKER_TFS_WAIT_TIME_SECONDS": text})
        assert settings.load_wait_seconds == pytest.approx(waits)
    versions = [("2.20", 1, 51.0), ("2.20", 4, 51.0), ("2.19", 1, 25.4), ("2.19", 4, 6.2)]
    for tensorflow, processes, waits in [*versions, ("2.7", 1, 25.4)]:
        variables = {"SAGEMAKER_TFS_VERSION": tensorflow}
        variables["SAGEMAKER_TFS_INSTANCE_COUNT"] = str(processes)
        assert read_settings(variables).load_wait_seconds == pytest.approx(waits)
    for tensorflow in ["2.19", "2.20"]:
        image = find_image_code(tensorflow)
        for number in range(1, 3601):
            advised = find_real_wait(number, tensorflow)
            assert image.compute_real_wait_seconds(number) == advised, number
        for processes in range(1, 9):
            default = find_default_wait(tensorflow, processes=processes)
            assert image.compute_wait_seconds(processes) == default


def test_what_has_no_effect_is_listed() -> None:
    variables = {"SAGEMAKER_GUNICORN_WORKERS": "4", "SAGEMAKER_TFS_ENABLE_BATCHING": "true"}
    variables |= {"SAGEMAKER_SAFE_PORT_RANGE": "9000-9999", "OMP_NUM_THREADS": "1"}
    assert list_unused_variables(variables, gunicorn=False) == ["SAGEMAKER_GUNICORN_WORKERS"]
    variables = {"SAGEMAKER_GUNICORN_THREADS": "4", "SAGEMAKER_GUNICORN_WORKERS": "4"}
    assert list_unused_variables(variables, gunicorn=True) == ["SAGEMAKER_GUNICORN_THREADS"]


# The container's name of a setting -> the one that a deployment has.
SAME = {name: name for name in ("inter_op_threads", "intra_op_threads", "gunicorn_timeout_seconds")}
SAME |= {"model_servers": "tfs_processes", "wait_seconds": "wait_time_seconds"}
SAME |= {name: f"gunicorn_{name}" for name in ("workers", "threads", "worker_class")}
SAME["gunicorn_log_level"] = "gunicorn_log_level"


@given(VALUES)
def test_the_container_reads_what_a_deployment_rendered(values: dict[str, Any]) -> None:
    deployed = ContainerSettings.model_validate(values)
    stated = deployed.model_dump(exclude_none=True)
    read = read_settings(build_variables(deployed, default_model="m"))
    assert read.default_model == "m"
    found = {theirs: getattr(read, ours) for ours, theirs in SAME.items() if theirs in stated}
    assert found.items() <= stated.items()
    batching = asdict(read.batching) if read.batching else {}
    assert stated.get("batching", {}).items() <= batching.items()
