"""`servable invoke`: a body or arrays in, the answer out, exit codes and JSON for programs."""

import json
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result

from model_packaging.saved_model.reading import SignatureInfo, TensorInfo
from servable.invoke.command import invoke
from servable.invoke.invoke import build_body
from tests.conftest import VALID
from tests.servable_client.runtime_server import Received, Reply, Server

Run = Callable[..., Result]
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """run("--body", "x.npy", …): in a project with the environment `prod`, an x.npy and a body.json."""
    (project / "environments" / "prod.toml").write_text(VALID)
    np.savez(project / "x.npz", x=np.arange(6.0).reshape(3, 2))
    (project / "body.json").write_text('{"inputs": {"x": [1.0]}}')
    monkeypatch.chdir(project)
    return lambda *arguments: CliRunner().invoke(
        invoke, ["prod", *arguments], standalone_mode=False
    )


def relayed(received: Received) -> Reply:
    return Reply(200, b'{"outputs": [7.5]}\n', JSON)


def test_a_body_goes_as_it_is_and_its_answer_is_shown(server: Server, run: Run) -> None:
    server.answer = relayed
    ran = run("--body", "body.json", "--url", server.url)
    found = (ran.stdout, server.received[0].body)
    assert found == ('{"outputs": [7.5]}\n', b'{"inputs": {"x": [1.0]}}')
    server.answer = relayed
    parsed = json.loads(run("--body", "body.json", "--url", server.url, "--json").stdout)
    assert parsed.keys() == {"variant", "seconds", "content_type", "answer"}


GOLDEN = '[models.ranker]\ngolden.request = "golden/mine.{}"\n'


def test_without_a_body_the_golden_is_sent(server: Server, run: Run, project: Path) -> None:
    def ask(ending: str, content: bytes) -> str:
        text = VALID.replace("[models.ranker]\n", GOLDEN.format(ending))
        (project / "environments" / "prod.toml").write_text(text)
        (project / "golden" / f"mine.{ending}").write_bytes(content)
        return run("--url", f"{server.url}/invocations").stdout

    arrays = json.loads(ask("npz", (project / "x.npz").read_bytes()))
    assert arrays == {"outputs": {"y": [[0, 2], [4, 6], [8, 10]]}}
    server.answer = relayed
    for ending, content_type in [("json", "application/json"), ("csv", "text/csv")]:
        assert ask(ending, b"[7]") == '{"outputs": [7.5]}\n'
        got = server.received[-1]
        assert (got.path, got.body) == ("/invocations", b"[7]")
        assert got.headers["content-type"] == content_type


def test_without_body_and_golden_one_is_asked_for(server: Server, run: Run, project: Path) -> None:
    for lines, said in [
        ("[models.ranker]\n", "models.ranker has no golden request; pass --body FILE"),
        (GOLDEN.format("json"), "doesn't exist"),
    ]:
        text = VALID.replace("[models.ranker]\n", lines)
        (project / "environments" / "prod.toml").write_text(text)
        assert said in str(run("--url", server.url).exception)
        assert server.received == []


def test_arrays_are_predicted_and_shown_or_written(server: Server, run: Run, project: Path) -> None:
    ran = run("--body", "x.npz", "--url", server.url, "--split", "1")
    assert json.loads(ran.stdout) == {"outputs": {"y": [[0, 2], [4, 6], [8, 10]]}}
    run("--body", "x.npz", "--url", server.url, "--output", "answer.npz")
    assert np.load(project / "answer.npz")["y"].tolist() == [[0, 2], [4, 6], [8, 10]]


@pytest.mark.parametrize("accepted", [True, False])
def test_a_body_that_the_file_acknowledges_is_sent(
    server: Server, run: Run, project: Path, accepted: bool
) -> None:
    if accepted:
        more = '[traffic]\nrequest_bytes = 6291457\n[acknowledge]\nrequest-too-large = "it was answered"\n'
        (project / "environments" / "prod.toml").write_text(VALID + more)
    (project / "body.json").write_bytes(b" " * 6_291_457)
    server.answer = relayed
    run("--body", "body.json", "--url", server.url)
    assert len(server.received) == accepted


def test_without_a_target_the_deployed_endpoint_in_its_region_is_asked(
    server: Server, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    run("--body", "x.npz", "--variant", "green")
    (got,) = server.received
    asked = (got.path, got.headers["x-amzn-sagemaker-target-variant"])
    assert asked == ("/endpoints/ranker/invocations", "green")
    assert "/eu-west-1/sagemaker/" in got.headers["authorization"]
    run("--body", "x.npz", "--set", "prod.endpoint.name=ranker-blue")
    assert server.received[-1].path == "/endpoints/ranker-blue/invocations"


def test_a_failure_is_a_line_and_exit_code_1(server: Server, run: Run, project: Path) -> None:
    for answer in [
        b'{"error": "x: got 3 rows"}',
        b'{"title": "Bad request", "description": "x: got 3 rows"}',
    ]:
        server.answer = lambda received, answer=answer: Reply(400, answer, JSON)  # type: ignore[misc]
        ran = run("--body", "body.json", "--url", server.url)
        assert (ran.return_value, ran.stdout) == (1, "")
        said = f"servable invoke: {server.url}: the container returns 400: x: got 3 rows\n"
        assert ran.stderr == said

    (project / "bad.npy").write_bytes(b"\x93NUMPY nonsense")
    ran = run("--body", "bad.npy", "--url", server.url)
    assert ran.return_value == 1
    assert ran.stderr.startswith("servable invoke: bad.npy: cannot be read")

    server.answer = lambda received: Reply(415, b'{"error": "Unsupported Media Type"}', JSON)
    ran = run("--body", "x.npz", "--url", server.url, "--format", "npz")
    assert (ran.return_value, 'set handler = "servable"' in ran.stderr) == (1, True)


def test_an_endpoint_that_there_is_not_is_said_with_the_command_that_deploys_it(
    server: Server, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
    answer = b'{"Message": "Endpoint ranker of account 123456789012 not found."}'
    kind = JSON | {"x-amzn-errortype": "ValidationError"}
    server.answer = lambda received: Reply(400, answer, kind)
    assert run("--body", "x.npz").stderr.endswith("\n`cdk deploy 'prod/*'` deploys it\n")


def test_wrong_use_is_said(server: Server, run: Run, project: Path) -> None:
    server.answer = lambda received: Reply(200, b"\0", {"Content-Type": "application/x-npy"})
    assert isinstance(run("--body", "body.json", "--url", server.url).exception, click.UsageError)
    cases: list[tuple[str, ...]] = [
        ("--body", "body.json", "--split", "2"),
        ("--body", "body.json", "--format", "npz"),
        ("--body", "cdk.txt"),
        ("--body", "body.json", "--local", "--url", "http://127.0.0.1:1"),
        ("--body", "body.json", "--environments", "nowhere"),
    ]
    for arguments in cases:
        (project / "cdk.txt").write_text("x")
        assert isinstance(run(*arguments).exception, click.UsageError)


def test_a_target_or_key_that_is_refused_is_said_with_the_command_for_it(run: Run) -> None:
    for key in ["endpoint=x", "prod.endpoint=x"]:
        told = str(run("--body", "body.json", "--set", key).exception)
        assert f"`servable check prod --set={key}` shows why" in told
    arguments = ["http://127.0.0.1:8080", "--body", "body.json"]
    with pytest.raises(click.UsageError) as refused:
        CliRunner().invoke(invoke, arguments, standalone_mode=False, catch_exceptions=False)
    assert "servable invoke prod --url http://127.0.0.1:8080 --body" in str(refused.value)


PLAIN = VALID
WITH_HANDLER = VALID.replace('saved_model = "model"', 'saved_model = "model"\nhandler = "servable"')


def test_a_signature_the_container_would_ignore_is_refused(server: Server, run: Run) -> None:
    server.answer = relayed
    ran = run("--body", "body.json", "--url", server.url, "--signature", "other")
    assert isinstance(ran.exception, click.UsageError)
    assert 'set models.ranker.handler = "servable"' in str(ran.exception)
    assert server.received == []


@pytest.mark.parametrize(("environment", "body"), [(WITH_HANDLER, "body.json"), (PLAIN, "x.npz")])
def test_a_signature_that_is_heard_is_sent(
    server: Server, run: Run, project: Path, environment: str, body: str
) -> None:
    server.answer = relayed
    (project / "environments" / "prod.toml").write_text(environment)
    ran = run("--body", body, "--url", server.url, "--signature", "other")
    assert ran.return_value == 0, ran.stderr
    attributes = server.received[0].headers["x-amzn-sagemaker-custom-attributes"]
    assert attributes == "tfs-signature-name=other"


def test_an_embedded_aws_that_is_down_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servable.project.account.find_local_aws", lambda folder: None)
    assert "servable local up" in run("--body", "x.npz", "--local").stderr


def test_a_body_of_standard_input_is_sent_as_json(server: Server, run: Run) -> None:
    server.answer = relayed
    command = ["prod", "--body", "-", "--url", server.url]
    CliRunner().invoke(invoke, command, input=b'{"inputs": 1}', standalone_mode=False)
    (got,) = server.received
    assert (got.body, got.headers["content-type"]) == (b'{"inputs": 1}', "application/json")


IDS = ",".join(["7"] * 39)


def test_inputs_are_sent_as_the_signature_says(server: Server, run: Run, project: Path) -> None:
    server.answer = relayed
    np.save(project / "vals.npy", np.full((1, 39), 0.5))
    (project / "ids.json").write_text(f"[[{IDS}]]")
    for ids in (f"feat_ids=[{IDS}]", "feat_ids=@ids.json"):
        ran = run("-i", ids, "-i", "feat_vals=@vals.npy", "--url", server.url)
        assert (ran.exception, ran.stdout) == (None, '{"outputs": [7.5]}\n')
        sent = server.received[-1]
        assert sent.headers["content-type"] == "application/json"
        inputs = {"feat_ids": [[7] * 39], "feat_vals": [[0.5] * 39]}
        assert json.loads(sent.body) == {"inputs": inputs}


def test_inputs_the_signature_does_not_take_are_refused(server: Server, run: Run) -> None:
    cases: list[tuple[tuple[str, ...], str]] = [
        (("-i", "feat_ids"), "write NAME=VALUE"),
        (("-i", f"feat_ids=[{IDS}]"), "pass -i feat_vals=…"),
        (("-i", "feat_id=1"), "no such input; did you mean feat_ids"),
        (("-i", "feat_ids=1.5", "-i", "feat_vals=1"), "int64 of [any, 39]"),
        (("-i", "feat_ids=many", "-i", "feat_vals=1"), "int64 of [any, 39]"),
        (("-i", "feat_ids=[1, 2]", "-i", "feat_vals=1"), "the shape [1, 2] doesn't fit"),
        (("-i", "feat_ids=@no.npy", "-i", "feat_vals=1"), "no.npy"),
        (("-i", "feat_ids=1", "--body", "body.json"), "use either -i or --body"),
        (("-i", "feat_ids=1", "--signature", "other"), "has no signature other"),
    ]
    for arguments, said in cases:
        ran = run(*arguments, "--url", server.url)
        assert (said in f"{ran.exception} {ran.stderr}", server.received) == (True, []), ran.stderr


TEXT = TensorInfo(name="t:0", dtype="string", shape=(None,))


def test_strings_are_text_or_a_files_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[str, list[object]]] = [
        ("good film", ["good film"]),
        ("007", ["007"]),
        ('["a", "b"]', ["a", "b"]),
        ("@photo.jpg", [{"b64": "/9j/"}]),
        ("a=b", ["a=b"]),
    ]
    for given, sent in cases:
        monkeypatch.chdir(tmp_path)
        (tmp_path / "photo.jpg").write_bytes(b"\xff\xd8\xff")
        signature = SignatureInfo(inputs={"text": TEXT}, outputs={}, method="predict")
        body = json.loads(build_body([f"text={given}"], signature, "own"))
        assert body == {"signature_name": "own", "inputs": {"text": sent}}
        # An archive's signature isn't known: values are sent as they are.
        assert json.loads(build_body(["x=1.5"], None, None)) == {"inputs": {"x": 1.5}}
