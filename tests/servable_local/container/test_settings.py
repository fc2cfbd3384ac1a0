import pytest

from servable_local.container.inert_settings import without_effect
from servable_local.container.port_settings import SettingsError
from servable_local.container.settings import read_settings


def test_zero_threads_leave_them_to_tensorflow() -> None:
    assert read_settings({"SAGEMAKER_TFS_INTER_OP_PARALLELISM": "0"}).inter_op_threads == 0


def test_a_value_that_the_image_refuses_is_a_sentence() -> None:
    with pytest.raises(SettingsError, match="SAGEMAKER_TFS_ENABLE_BATCHING: '1' is not accepted"):
        read_settings({"SAGEMAKER_TFS_ENABLE_BATCHING": "1"})


def test_multi_model_mode_is_true_or_false() -> None:
    with pytest.raises(SettingsError, match="SAGEMAKER_MULTI_MODEL: 'yes' is not accepted"):
        read_settings({"SAGEMAKER_MULTI_MODEL": "yes"})


def test_multi_model_mode_runs_on_gthread_whatever_was_asked_for() -> None:
    variables = {"SAGEMAKER_MULTI_MODEL": "true", "SAGEMAKER_GUNICORN_WORKER_CLASS": "sync"}
    assert read_settings(variables).worker_class == "gthread"


@pytest.mark.parametrize(
    ("given", "waits"), [("6", 3.0), ("50", 25.4), ("60", 51.0), ("300", 204.6), ("1", 0.6)]
)
def test_the_wait_for_a_model_is_shorter_than_asked_for(given: str, waits: float) -> None:
    settings = read_settings({"SAGEMAKER_TFS_WAIT_TIME_SECONDS": given})
    assert settings.load_wait_seconds == pytest.approx(waits)


@pytest.mark.parametrize(
    ("given", "waits"), [({}, 60), ({"TIMEOUT": "90"}, 90), ({"TIMEOUT": "9"}, 60)]
)
def test_the_front_waits_at_least_as_long_as_gunicorn(given: dict[str, str], waits: int) -> None:
    variables = {f"SAGEMAKER_GUNICORN_{name}_SECONDS": text for name, text in given.items()}
    assert read_settings(variables).read_timeout_seconds == waits


def test_a_port_range_of_exactly_two_ports_is_refused_as_in_the_image() -> None:
    with pytest.raises(SettingsError, match="'9000-9001' has too few ports for 1 model servers"):
        read_settings({"SAGEMAKER_SAFE_PORT_RANGE": "9000-9001"})


def test_a_port_range_that_is_long_enough_is_taken() -> None:
    assert read_settings({"SAGEMAKER_SAFE_PORT_RANGE": "9000-9002"}).port_range == (9000, 9002)


@pytest.mark.parametrize("given", ["9000", "a-b", "9000-70000", "9000-9001"])
def test_a_port_range_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(SettingsError, match="SAGEMAKER_SAFE_PORT_RANGE"):
        read_settings({"SAGEMAKER_SAFE_PORT_RANGE": given})


@pytest.mark.parametrize("worker_class", ["eventlet", "tornado"])
def test_a_worker_class_whose_package_is_missing_is_refused(worker_class: str) -> None:
    with pytest.raises(SettingsError, match="allowed here: sync, gevent, gthread"):
        read_settings({"SAGEMAKER_GUNICORN_WORKER_CLASS": worker_class})


def test_what_has_no_effect_is_listed() -> None:
    variables = {
        "SAGEMAKER_GUNICORN_WORKERS": "4",
        "SAGEMAKER_TFS_ENABLE_BATCHING": "true",
        "SAGEMAKER_SAFE_PORT_RANGE": "9000-9999",
        "OMP_NUM_THREADS": "1",
    }
    assert without_effect(variables, gunicorn=False) == ["SAGEMAKER_GUNICORN_WORKERS"]


def test_threads_are_without_effect_with_gevent() -> None:
    variables = {"SAGEMAKER_GUNICORN_THREADS": "4", "SAGEMAKER_GUNICORN_WORKERS": "4"}
    assert without_effect(variables, gunicorn=True) == ["SAGEMAKER_GUNICORN_THREADS"]
