"""The articles' presets with small models, deployed together, asked, and verified; and pages/p2."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infra.parameters.environment import build_stack_name
from infra.parameters.loading import load
from servable.plan.synthesis import SynthesisedStack
from servable.project.account import Account
from servable.verify.command import compare_stacks
from servable.verify.difference import Report
from servable_client.formats import decode
from servable_local.aws import LocalAws, running
from tests.checkouts import PATH, ROOT, bootstrap, checkout, succeed_in
from tests.conftest import valid
from tests.presets import synthesised

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]  # five containers start in one fixture
EXAMPLES = ROOT / "examples"
PRESETS = {
    "pages": "g4dn",
    "ranking": "c5",
    "retrieval": "c5",
    "detector": "g5",
    "large_models": "one-gpu",
}
WHO = {"account": "111111111111", "region": "us-east-1"}
PAGE = "<html lang=en>" + "<p>A word <a href='/'>and a link</a></p>" * 12_000 + "</html>"


def fewer(text: str) -> str:
    """Two processes of a kind instead of up to 36, and time to start on a busy computer."""
    text = re.sub(r"((?:tfs_processes|gunicorn_workers) *=) \d+", r"\1 2", text)
    return re.sub(r"(instance_type .*)", r"\1\nstartup_timeout_seconds = 600", text)


def gathered(folder: Path) -> None:
    """The presets as environments of one folder, each with a base of its own name."""
    for file in folder.glob("*.toml"):
        file.unlink()
    for preset, name in PRESETS.items():
        own, base = preset.replace("_", "-"), EXAMPLES / preset / "base.toml"
        text = fewer((EXAMPLES / preset / f"{name}.toml").read_text())
        (folder / f"{own}.toml").write_text(text.replace('"base"', f'"{own}-base"'))
        if base.exists():
            (folder / f"{own}-base.toml").write_text(fewer(base.read_text()))


class Presets:
    """All five in one local AWS, whose clock stands still."""

    def __init__(self, aws: LocalAws, project: Path) -> None:
        self.aws = aws
        files = load(project, project / "environments")
        self._loaded = {one.name.replace("-", "_"): valid(one) for one in files}
        self._runtime = aws.client("sagemaker-runtime", **WHO)

    def report(self, preset: str) -> Report:
        loaded = self._loaded[preset]
        environment = loaded.environment
        stacks = [
            SynthesisedStack(
                kind=kind, name=build_stack_name(loaded.name, environment, kind), template=template
            )
            for kind, template in synthesised(loaded).items()
        ]
        account = Account(region=WHO["region"], number=WHO["account"], aws=self.aws)
        return compare_stacks(loaded, stacks, account, meant={})

    def ask(self, preset: str, body: bytes, content_type: str, **more: str) -> bytes:
        endpoint = self._loaded[preset].environment.endpoint.name
        answer = self._runtime.invoke_endpoint(
            EndpointName=endpoint, Body=body, ContentType=content_type, **more
        )
        found: bytes = answer["Body"].read()
        return found

    def rows(self, preset: str, **more: str) -> Any:
        """Predictions for its golden request of JSON."""
        body = (EXAMPLES / preset / "golden" / "request.json").read_bytes()
        return json.loads(self.ask(preset, body, "application/json", **more))["predictions"]


@pytest.fixture(scope="module")
def presets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Presets]:
    project = checkout(tmp_path_factory.mktemp("presets") / "project")
    gathered(project / "environments")
    with running(seconds_per_minute=None) as aws:
        variables = aws.environment_over({**os.environ, "PATH": PATH}, **WHO)
        bootstrap(project.parent, environment=variables, **WHO)
        command = ("cdk", "deploy", "*/*", "--require-approval", "never", "--concurrency", "5")
        succeed_in(project, *command, environment=variables, timeout_seconds=400)
        yield Presets(aws, project)


def test_every_preset_is_as_deployed_and_its_golden_request_was_sent(presets: Presets) -> None:
    for preset in PRESETS:
        report = presets.report(preset)
        assert [str(one) for one in report.differences] == []
        assert not [note for note in report.notes if "golden" in note]


def test_pages_get_an_answer_to_every_question_or_a_sentence(presets: Presets) -> None:
    answer = json.loads(presets.ask("pages", PAGE.encode(), "text/html"))
    assert answer.keys() == {"page_type", "language", "sells", "zones"}
    runtime = presets.aws.client("sagemaker-runtime", **WHO)
    with pytest.raises(runtime.exceptions.ModelError, match="send a page of HTML"):
        presets.ask("pages", b"no page", "text/html")


def test_candidates_embeddings_and_boxes_are_as_many_as_asked(presets: Presets) -> None:
    body = (EXAMPLES / "ranking" / "golden" / "request.pb").read_bytes()
    form = "application/x-protobuf"
    prob = decode(form, presets.ask("ranking", body, form, Accept=form))["prob"]
    assert prob.shape == (500,)
    lengths = [np.linalg.norm(row["embedding"]) for row in presets.rows("retrieval")]
    np.testing.assert_allclose(lengths, 1.0, rtol=1e-5)
    (found,) = presets.rows("detector")
    assert np.count_nonzero(found["scores"]) == found["count"] > 0


@pytest.mark.parametrize("model", ["topics", "sentiment", "entities", "similarity"])
def test_each_of_the_large_models_answers_by_its_name(presets: Presets, model: str) -> None:
    wanted = json.loads((EXAMPLES / "large_models" / "golden" / f"{model}.json").read_text())
    found = presets.rows("large_models", CustomAttributes=f"tfs-model-name={model}")
    np.testing.assert_allclose(found, wanted["predictions"], rtol=1e-4, atol=1e-4)


def test_p2_is_deployed_and_verified_by_the_commands_of_its_page(tmp_path: Path) -> None:
    project = checkout(tmp_path / "project")
    page = (EXAMPLES / "pages" / "README.md").read_text()
    section = page.partition("## p2 in the local AWS")[2].partition("\n## ")[0]
    commands = [line.strip() for line in section.splitlines() if line.startswith("    ")]
    assert commands[-1] == "servable local down"
    script = "\n".join(["trap 'servable local down' EXIT", *commands[:-1]])
    variables = {**os.environ, "PATH": PATH, "PYTHONPATH": str(project)}
    ran = succeed_in(
        project, "bash", "-e", "-c", script, environment=variables, timeout_seconds=550
    )
    assert "p2  as deployed\n" in ran.stdout
