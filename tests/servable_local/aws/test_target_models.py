"""A target of a multi-model endpoint is loaded once, and again after the container has lost it."""

import http.client
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servable_local.aws.errors import ValidationError
from servable_local.aws.sagemaker import model_data
from servable_local.aws.sagemaker.container import VariantStartError
from servable_local.aws.sagemaker.model_data import TargetModels
from servable_tensors import archive


class Container:
    """It remembers what it is asked to load, and answers `status`."""

    def __init__(self) -> None:
        self.url = "http://127.0.0.1:1"
        self.status, self.answer = 200, b""
        self.error: Exception | None = None
        self.loaded: list[dict[str, str]] = []

    def post(self, path: str, body: bytes, headers: dict[str, str], **more: float) -> Any:
        if self.error is not None:
            raise self.error
        assert (path, headers) == ("/models", {"Content-Type": "application/json"})
        self.loaded.append(json.loads(body))
        return self.status, {}, self.answer


class Case:
    def __init__(self, folder: Path) -> None:
        self.container, self.fetched = Container(), list[str]()
        container: Any = self.container
        aws: Any = None
        self.models = TargetModels(container, "s3://b/models/", aws=aws, folder=folder)

    def refusal(self, target: str = "a.tar.gz") -> str:
        with pytest.raises(ValidationError) as caught:
            self.models.path(target)
        return str(caught.value.message)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    case = Case(tmp_path / "models")

    def fetch(url: str, aws: Any, target: Path) -> Path:
        case.fetched.append(url)
        return target

    monkeypatch.setattr(model_data, "fetch_model_data", fetch)
    monkeypatch.setattr(archive, "unpack", lambda packed, folder: folder.mkdir(parents=True))
    return case


def raising(error: Exception) -> Callable[..., Any]:
    def fails(*given: Any) -> None:
        raise error

    return fails


def test_a_target_is_fetched_from_its_prefix_and_loaded_once(case: Case) -> None:
    paths = [case.models.path("/sub/a.tar.gz") for _ in range(2)]
    (request,) = case.container.loaded
    assert case.fetched == ["s3://b/models/sub/a.tar.gz"]
    assert paths == [f"/models/{request['model_name']}/invoke"] * 2
    assert Path(request["url"]).is_dir()
    assert case.models.path("a.tar.gz") != case.models.path("b.tar.gz")


def test_a_target_that_the_container_lost_is_loaded_again_and_not_fetched(case: Case) -> None:
    case.models.forget("absent")

    case.models.path("a.tar.gz")
    case.models.forget("a.tar.gz")
    case.models.path("a.tar.gz")
    assert (len(case.container.loaded), len(case.fetched)) == (2, 1)


def test_a_container_at_another_address_has_nothing_loaded(case: Case) -> None:
    case.models.path("a.tar.gz")
    case.container.url = "http://127.0.0.1:2"
    case.models.path("a.tar.gz")
    assert len(case.container.loaded) == 2


@pytest.mark.parametrize("status", [200, 299, 409])
def test_a_target_that_is_loaded_now_or_was_already_is_asked(case: Case, status: int) -> None:
    case.container.status = status
    assert case.models.path("a.tar.gz").startswith("/models/")


@pytest.mark.parametrize("status", [199, 300, 408, 410, 500])
def test_a_target_that_does_not_load_is_refused(case: Case, status: int) -> None:
    case.container.status, case.container.answer = status, b"no memory \xff"
    assert case.refusal() == "a.tar.gz could not be loaded: no memory \ufffd"


@pytest.mark.parametrize("error", [OSError("reset"), http.client.BadStatusLine("reset")])
def test_a_container_that_hangs_up_is_a_refusal(case: Case, error: Exception) -> None:
    case.container.error = error
    assert case.refusal() == "a.tar.gz could not be loaded: reset"


def test_a_target_that_did_not_load_is_loaded_by_the_next_request(case: Case) -> None:
    case.container.status = 500
    case.refusal()
    case.container.status = 200
    assert case.models.path("a.tar.gz").startswith("/models/")


def test_a_target_that_is_no_archive_is_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "unpack", raising(archive.ArchiveError("not gzip")))
    assert case.refusal() == "Failed to unpack a.tar.gz: not gzip"


def test_a_missing_target_is_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    fails = raising(VariantStartError("absent"))
    monkeypatch.setattr(model_data, "fetch_model_data", fails)
    assert "(bucket: b, key: models/a.tar.gz)" in case.refusal()
