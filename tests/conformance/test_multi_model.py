"""Multi-model mode: models come and go while the container runs."""

import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from servable_local.container.launch import launch
from tests.conformance.archives import MODELS
from tests.conformance.asking import eventually
from tests.conformance.conftest import Double

pytestmark = pytest.mark.long

ROW = {"instances": [[1.0, 2.0]]}


@pytest.fixture(scope="module")
def loaded(several: Double) -> Double:
    """With the model `numbers` loaded."""
    assert _load(several, "numbers").status_code == 200
    return several


def _load(several: Double, name: str, folder: str = "numbers") -> requests.Response:
    return several.post({"model_name": name, "url": str(MODELS / folder)}, path="/models")


def _unload(several: Double, name: str) -> requests.Response:
    return requests.delete(f"{several.url}/models/{name}", timeout=30)


def test_what_is_not_loaded_or_names_no_model_is_refused(several: Double) -> None:
    assert several.get("/ping").status_code == 200
    assert _load(several, "none", folder="numbers/1").status_code == 404
    answer = several.post(ROW, path="/models/other/invoke")
    expected = {"error": "Model other is not loaded yet."}
    assert (answer.status_code, answer.json()) == (404, expected)
    assert several.post(ROW).status_code == 400
    assert _unload(several, "other").status_code == 404


def test_a_loaded_model_answers_by_name_and_version_and_is_listed(loaded: Double) -> None:
    for attributes, expected in [("", [[3.0, 6.0]]), ("tfs-model-version=1", [[2.0, 4.0]])]:
        answer = loaded.post(ROW, path="/models/numbers/invoke", attributes=attributes)
        assert answer.json() == {"predictions": expected}
    states = loaded.get("/models").json()["numbers"]["model_version_status"]
    assert {one["state"] for one in states} == {"AVAILABLE"}

    answer = _load(loaded, "numbers")
    refused = {"error": "Model numbers is already loaded."}
    assert (answer.status_code, answer.json()) == (409, refused)

    said = _load(loaded, "ports").json()["success"]
    _unload(loaded, "ports")
    assert said.startswith("Successfully loaded model ports, listening on rest port ")


@pytest.mark.parametrize("layout", ["broken", "deeper", "beside a good one"])
def test_a_model_that_never_comes_up_is_408_and_no_json(
    layout: str, several: Double, tmp_path: Path
) -> None:
    """Source: _load_model in python_service.py of the image; it answers after the wait."""
    model = tmp_path / "x/model"
    (model / "2").mkdir(parents=True)
    (model / "2/saved_model.pb").write_bytes(b"no SavedModel")
    if layout == "deeper":
        shutil.move(model / "2", model / "numbers/2")
    if layout == "beside a good one":
        shutil.copytree(MODELS / "numbers/1", model / "1")
    answer = _load(several, "x", str(model))
    found = (answer.status_code, answer.headers["Content-Type"], answer.text)
    assert found == (408, "application/json", "Timed out after 60 seconds")
    assert "x" not in several.get("/models").json()


def test_code_is_taken_by_the_models_name(several: Double, tmp_path: Path) -> None:
    for name in ("mine", "theirs"):
        shutil.copytree(MODELS / "numbers", tmp_path / name / "model")
        code = tmp_path / name / "model/code/inference.py"
        code.parent.mkdir()
        code.write_text(f"def handler(data, context): return {name!r}, 'text/plain'\n")
    answers = []
    for name in ("mine", "other"):  # `other` has no code: the text goes to the model server
        _load(several, name, str(tmp_path / "theirs/model"))
        answers.append(several.post(ROW, path=f"/models/{name}/invoke").text)
        _unload(several, name)
    assert (answers[0], answers[1][:1]) == ("mine", "{")


def test_an_unloaded_model_is_404_and_can_come_back(several: Double) -> None:
    _load(several, "words", folder="words")
    unloaded = _unload(several, "words")
    answer = several.post({"instances": ["a"]}, path="/models/words/invoke")
    assert (unloaded.status_code, answer.status_code) == (200, 404)
    for _ in range(2):
        assert _load(several, "again", folder="words").status_code == 200
        answer = several.post({"instances": ["a"]}, path="/models/again/invoke")
        assert answer.json()["predictions"][0]["upper"] == "A"
        assert _unload(several, "again").status_code == 200


def _ended(double: Double, model: str) -> None:
    """The model server of `model`, alone, is killed once it has answered; returns when it is noticed."""
    before = set(double.process.parts.model_servers)
    assert _load(double, model).status_code == 200
    answer = double.post(ROW, path=f"/models/{model}/invoke")
    assert answer.json() == {"predictions": [[3.0, 6.0]]}
    (pid,) = set(double.process.parts.model_servers) - before
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: pid not in double.process.parts.model_servers)


def test_a_model_whose_server_has_ended_counts_as_loaded_until_the_next_request(
    several: Double,
) -> None:
    _ended(several, "killed")
    time.sleep(1.5)  # a model server that is started again takes less
    answers = [several.post(ROW, path="/models/killed/invoke") for _ in range(2)]
    expected = {"error": "Model killed is not loaded yet."}
    assert [(answer.status_code, answer.json()) for answer in answers] == [(404, expected)] * 2
    # It can be loaded again. Without a request, it has to be unloaded first.
    _ended(several, "killed")
    assert [act(several, "killed").status_code for act in (_load, _unload)] == [409, 200]


@pytest.fixture(scope="module")
def before_2_20() -> Iterator[Double]:
    """Multi-model mode of the images up to 2.19."""
    with launch(None, {"SAGEMAKER_MULTI_MODEL": "true"}, tensorflow="2.19") as process:
        yield Double(process)


def test_up_to_2_19_requests_for_it_fail_and_it_stays_loaded(before_2_20: Double) -> None:
    _ended(before_2_20, "killed")
    answers = [before_2_20.post(ROW, path="/models/killed/invoke") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [500, 500]


def test_a_web_page_loads_and_unloads_no_model(several: Double, loaded: Double) -> None:
    body = {"model_name": "page", "url": str(MODELS / "numbers")}
    for header in [
        ("Origin", "https://evil.example"),
        ("Origin", "null"),
        ("Host", "evil.example"),
        ("Host", "gunicorn_upstream"),
    ]:
        answer = several.post(body, "text/plain", path="/models", **dict([header]))
        assert (answer.status_code, "page" in several.get("/models").json()) == (403, False)

    url = f"{loaded.url}/models/numbers"
    answer = requests.delete(url, headers={"Origin": "https://evil.example"}, timeout=30)
    assert (answer.status_code, "numbers" in loaded.get("/models").json()) == (403, True)


def test_a_folder_that_another_user_owns_or_every_user_can_write_to_is_not_loaded(
    several: Double, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(MODELS / "numbers", tmp_path / "theirs"))
    (tmp_path / "link").symlink_to(folder)
    folder.chmod(0o777)
    for path in (folder, tmp_path / "link"):
        answer = _load(several, "theirs", str(path))
        assert (answer.status_code, "every user can write" in answer.text) == (403, True)
    if os.geteuid() == 0:  # only root can give a file to another user
        folder.chmod(0o755)
        os.chown(folder, 12345, 12345)
        answer = _load(several, "theirs", str(folder))
        assert (answer.status_code, "belongs to another user" in answer.text) == (403, True)
