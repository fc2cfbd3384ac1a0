"""Every export, packed and served in one local container, answers what its framework answered."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.parameters.loading import load
from servable.serve.serve import prepare_variant, serve_locally
from servable_local.container.launch import LaunchError
from tests.conformance.asking import ATTRIBUTES
from tests.conftest import VALID, valid
from tests.exports.exports import MODELS, SERVED, UNFILLED, answers

pytestmark = pytest.mark.long
# float32 has seven digits; kernels add in other orders, and the frameworks' GELU and tanh differ.
TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the container that serves all: models in one archive, as `also_serves` puts them."""
    project = tmp_path_factory.mktemp("served")
    (project / "environments").mkdir()
    first, *others = [*SERVED, UNFILLED]
    model = '[models.{}]\nsaved_model = "{}"\ntensorflow = "2.20"\n'
    models = "".join(model.format(name, MODELS / name) for name in others)
    text = VALID.replace("models.ranker", f"models.{first}")
    text = text.replace('"model"', f'"{MODELS / first}"')
    text = text.replace('model = "ranker"', f'model = "{first}"')
    several = f'handler = "servable"\nalso_serves = {json.dumps(others)}\n[variants'
    text = text.replace("[variants", several, 1) + models
    (project / "environments" / "all.toml").write_text(text)
    (loaded,) = load(project, project / "environments")
    with serve_locally(prepare_variant(valid(loaded)), port=0, log=project / "log") as process:
        yield process.url


def ask(url: str, model: str, signature: str, inputs: dict[str, Any]) -> Any:
    body = json.dumps({"signature_name": signature, "inputs": inputs}).encode()
    headers = {"Content-Type": "application/json", ATTRIBUTES: f"tfs-model-name={model}"}
    with urllib.request.urlopen(urllib.request.Request(f"{url}/invocations", body, headers)) as got:
        return json.load(got)["outputs"]


def differs(found: Any, expected: Any) -> bool:
    one, other = np.array(found), np.array(expected)
    if other.dtype.kind == "f":
        return not bool(np.allclose(one, other, rtol=TOLERANCE, atol=TOLERANCE))
    return bool(one.tolist() != other.tolist())


@pytest.mark.parametrize("name", SERVED)
def test_an_export_answers_what_its_framework_answered(name: str, url: str) -> None:
    different = []
    for signature, inputs, outputs in answers(name).asked:
        got = ask(url, name, signature, inputs)
        got = got if len(outputs) > 1 else dict.fromkeys(outputs, got)
        different += [(key, got[key]) for key in outputs if differs(got[key], outputs[key])]
    assert different == []


def test_a_keras_model_that_tensorflow_saves_lacks_its_variables(url: str) -> None:
    (asked,) = answers(UNFILLED).asked
    with pytest.raises(urllib.error.HTTPError) as refused:
        ask(url, UNFILLED, asked.signature, asked.inputs)
    assert (refused.value.code, b"Could not find variable" in refused.value.read()) == (400, True)


def test_a_container_that_does_not_start_names_the_key_and_file_of_the_warm_up_request(
    tmp_path: Path,
) -> None:
    (tmp_path / "environments").mkdir()
    good, bad = (json.dumps({"inputs": {"x": [1.0], "x_1": splits}}) for splits in ([0, 1], [0]))
    for name, request in (("good", good), ("bad", bad)):
        (tmp_path / f"{name}.json").write_text(request)
    ragged = f'"{MODELS / "module-ragged"}"\nwarm_up = ["good.json", "bad.json"]'
    text = VALID.replace('"model"', ragged)
    (tmp_path / "environments" / "all.toml").write_text(text)
    (loaded,) = load(tmp_path, tmp_path / "environments")
    where = "environments/all.toml: models.ranker.warm_up: the model fails on bad.json, so that"
    prepared = prepare_variant(valid(loaded))
    with (
        pytest.raises(LaunchError, match=rf"^data.shape = \[1\] does not start .*; {where}"),
        serve_locally(prepared, port=0, log=tmp_path / "log"),
    ):
        pass
