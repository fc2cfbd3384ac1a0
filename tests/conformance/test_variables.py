"""Variables with which the image fails or hangs: refused here, before anything starts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from servable_local.container.launch import LaunchError, launch
from tests.conformance import archives

pytestmark = pytest.mark.long


@pytest.fixture(scope="session")
def refusal(start: object, folder: Path) -> Callable[[dict[str, str]], str]:
    """refusal(variables): the sentence. `start` is asked for its skip with a URL."""
    archive = archives.coded(folder / "refused.tar.gz")  # else Gunicorn's are not looked at

    def sentence(variables: dict[str, str]) -> str:
        with pytest.raises(LaunchError) as refused:
            launch(archive, variables).close()
        return str(refused.value)

    return sentence


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SAGEMAKER_TFS_ENABLE_BATCHING", "1"),
        ("SAGEMAKER_TFS_ENABLE_BATCHING", "yes"),
        ("SAGEMAKER_TFS_INSTANCE_COUNT", "0"),
        ("SAGEMAKER_TFS_INSTANCE_COUNT", "two"),
        ("SAGEMAKER_GUNICORN_WORKER_CLASS", "eventlet"),
        ("SAGEMAKER_GUNICORN_WORKER_CLASS", "greenlet"),
        ("SAGEMAKER_GUNICORN_TIMEOUT_SECONDS", "soon"),
        ("SAGEMAKER_NGINX_PROXY_READ_TIMEOUT_SECONDS", "x"),
        ("SAGEMAKER_TFS_INTER_OP_PARALLELISM", "one"),
        ("SAGEMAKER_TFS_WAIT_TIME_SECONDS", "0"),
        ("SAGEMAKER_MULTI_MODEL", "1"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "9000-9001"),
        ("SAGEMAKER_SAFE_PORT_RANGE", "9000"),
        ("SAGEMAKER_BIND_TO_PORT", "http"),
    ],
)
def test_what_the_image_refuses_or_hangs_on_is_refused_by_name(
    name: str, value: str, refusal: Callable[[dict[str, str]], str]
) -> None:
    said = refusal({name: value})
    assert (name in said, value in said, "allowed" in said) == (True, True, True)


def test_a_default_model_that_is_not_in_the_archive_or_empty_is_refused(
    refusal: Callable[[dict[str, str]], str],
) -> None:
    said = refusal({"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": "other"})
    assert "the archive contains labels, numbers, words" in said
    assert "SAGEMAKER_TFS_DEFAULT_MODEL_NAME" in refusal({"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": ""})
