import pytest

from servable_local.container.launch import build_environment


def test_what_the_shell_sets_stays_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert build_environment({})["OMP_NUM_THREADS"] == "1"
    for name in ["SAGEMAKER_TFS_INSTANCE_COUNT", "SERVABLE_TRANSPORT"]:
        monkeypatch.setenv(name, "rest")
        assert name not in build_environment({})
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "0")
    assert "TF_ENABLE_ONEDNN_OPTS" not in build_environment({})
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert build_environment({})["NO_PROXY"] == "example.com,127.0.0.1,localhost"


def test_the_variables_are_passed_on_but_for_pythonpath(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ["OMP_NUM_THREADS", "TF_ENABLE_ONEDNN_OPTS", "SERVABLE_TRANSPORT", "MINE"]:
        assert build_environment({name: "0"})[name] == "0"
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    assert build_environment({})["TF_CPP_MIN_LOG_LEVEL"] == "0"
    assert build_environment({"PYTHONPATH": "/mine"})["PYTHONPATH"] != "/mine"
