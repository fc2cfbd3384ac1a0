import pytest

from servable_local.container.launch import process_environment


def test_openmp_has_one_thread_unless_the_variables_say_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert process_environment({})["OMP_NUM_THREADS"] == "1"


@pytest.mark.parametrize(
    "name", ["OMP_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS", "SERVABLE_TRANSPORT", "MINE"]
)
def test_the_variables_are_passed_on(name: str) -> None:
    assert process_environment({name: "0"})[name] == "0"


@pytest.mark.parametrize("name", ["SAGEMAKER_TFS_INSTANCE_COUNT", "SERVABLE_TRANSPORT"])
def test_what_the_shell_sets_for_the_container_stays_outside(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "rest")
    assert name not in process_environment({})


def test_onednn_is_tensorflows_own_choice_unless_the_variables_say_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert "TF_ENABLE_ONEDNN_OPTS" not in process_environment({})


def test_a_log_level_that_is_set_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert process_environment({})["TF_CPP_MIN_LOG_LEVEL"] == "0"


def test_a_pythonpath_of_the_variables_is_overwritten_as_in_the_image() -> None:
    assert process_environment({"PYTHONPATH": "/mine"})["PYTHONPATH"] != "/mine"


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert process_environment({})["NO_PROXY"] == "example.com,127.0.0.1,localhost"
