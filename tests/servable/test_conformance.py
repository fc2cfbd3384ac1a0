"""`servable conformance`: what it asks, what it compares, and what it says of it."""

import http.server
import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from servable.conformance import contract
from servable.conformance.command import LOCAL_ONLY, conformance
from servable.conformance.conformance import counted
from servable.conformance.observed_cases import Agreement, Case, ObservedAnswer, cases, containers
from servable.conformance.prepare import MODELS, start_script
from servable.conformance.targets import LOCAL_SERVER, ContainerTarget
from servable_local.container.http_messages import HttpAnswer, encoded
from servable_tensors import wire

pytestmark = pytest.mark.long

OF_2_20 = containers(case for case in cases() if case.image == "2.20")
PLAIN = OF_2_20[0]
ERROR = ObservedAnswer(400, "application/json", b'{"error": "no"}')
Altered = Callable[[Case, ObservedAnswer], ObservedAnswer]


def _answer(text: str, content_type: str = "application/json") -> ObservedAnswer:
    return ObservedAnswer(200, content_type, text.encode())


@pytest.mark.parametrize(
    ("observed", "seen", "agreement"),
    [
        (_answer("[1.0, 2.5]"), _answer("[1.0, 2.5]"), Agreement.EQUAL),
        (_answer("[1.0, 2.5]"), _answer("[1.00000005, 2.5]"), Agreement.LAST_DIGITS),
        (_answer("[1.0, 2.5]"), _answer("[1.00, 2.5]"), Agreement.DIFFERENT),
        (_answer("[1.0, 2.5]"), _answer("[1.001, 2.5]"), Agreement.DIFFERENT),
        (_answer("[1.0,\n 2.5]"), _answer("[1.0, 2.5]"), Agreement.DIFFERENT),
        (_answer("[10000001]"), _answer("[10000002]"), Agreement.DIFFERENT),
        (_answer("[1.0]"), _answer("[1.0]", "text/csv"), Agreement.DIFFERENT),
        (
            ERROR,
            ObservedAnswer(400, "application/json", b'{"error": "not"}'),
            Agreement.OTHER_WORDS,
        ),
        (ERROR, ObservedAnswer(400, "application/json", b'{"error": ""}'), Agreement.DIFFERENT),
        (ERROR, ObservedAnswer(400, "application/json", b'{"why": "no"}'), Agreement.DIFFERENT),
        (ERROR, ObservedAnswer(400, "application/json", b"no"), Agreement.DIFFERENT),
        (ERROR, ObservedAnswer(400, None, b'{"error": "no"}'), Agreement.EQUAL),
        (
            ObservedAnswer(405, "", b"", (("allow", "POST"),)),
            ObservedAnswer(405, "", b"", ()),
            Agreement.DIFFERENT,
        ),
        (ERROR, ObservedAnswer(500, "application/json", b'{"error": "no"}'), Agreement.DIFFERENT),
    ],
)
def test_how_far_an_answer_agrees(
    observed: ObservedAnswer, seen: ObservedAnswer, agreement: Agreement
) -> None:
    assert observed.agreement(seen) is agreement


def test_arrays_agree_but_for_their_last_digits() -> None:
    (npz,) = [one for one in cases() if one.name == "text npz npz" and one.group == "2.20 texth"]
    assert npz.answer.agreement(npz.answer) is Agreement.EQUAL


def test_a_protobuf_answer_of_another_version_differs() -> None:
    (case,) = [one for one in cases() if one.name == "pb pb" and one.group == "2.20 handler"]
    message = wire.PredictResponse.FromString(case.answer.body)
    message.model_spec.version.value += 1
    other = replace(case.answer, body=message.SerializeToString(deterministic=True))
    assert case.answer.agreement(other) is Agreement.DIFFERENT


def test_every_case_is_asked_of_one_container() -> None:
    assert sum(len(container.cases) for container in containers(cases())) == len(cases())


def test_a_group_of_another_model_than_the_default_names_it() -> None:
    (case,) = [one for one in PLAIN.cases if one.name == "words csv comma"]
    assert case.sent_headers["X-Amzn-SageMaker-Custom-Attributes"] == "tfs-model-name=words"


def test_a_groups_own_attributes_stay() -> None:
    (case,) = [one for one in cases() if one.name == "text sig attr" and one.image == "2.20"]
    sent = case.sent_headers["X-Amzn-SageMaker-Custom-Attributes"]
    assert sent == "tfs-signature-name=size,tfs-model-name=text"


class Replay(http.server.BaseHTTPRequestHandler):
    """A container that answers as was observed, but for what `altered` makes of it."""

    protocol_version = "HTTP/1.1"
    name = "nginx/1.22.1"
    models: Sequence[str] = MODELS
    answers: dict[Any, tuple[Case, ObservedAnswer]]
    altered: Altered

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        own = ("host", "content-length", "accept-encoding")
        headers = {key.lower(): value for key, value in self.headers.items()}
        key = _key(
            self.command, self.path, {k: v for k, v in headers.items() if k not in own}, body
        )
        case, answer = self.answers.get(key, (None, ObservedAnswer(404, "application/json", b"")))
        if case is not None:
            answer = type(self).altered(case, answer)
        elif self.path.removeprefix("/tfs/v1/models/") in self.models:
            answer = ObservedAnswer(200, "application/json", b"{}")
        self.send_response_only(answer.status)
        self.send_header("Server", self.name)
        self.send_header("Content-Type", answer.content_type or "")
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_HEAD = do_PATCH = _any

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def _key(method: str, path: str, headers: dict[str, str], body: bytes) -> Any:
    return method, path, tuple(sorted(headers.items())), body


@pytest.fixture
def replay(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """replay(altered, name=…, models=…): the address of a container."""
    monkeypatch.setattr(contract, "CHECKS", {})
    monkeypatch.setattr(contract, "MODEL_CHECKS", {})
    servers: list[http.server.ThreadingHTTPServer] = []

    def started(altered: Altered = lambda case, answer: answer, **attributes: object) -> str:
        answers = {}
        for case in PLAIN.cases:
            headers = {name.lower(): value for name, value in case.sent_headers.items()}
            answers[_key(case.method, case.path, headers, case.body)] = case, case.answer
        made = type(
            "Made", (Replay,), {"answers": answers, "altered": staticmethod(altered)} | attributes
        )
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), made)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield started
    for server in servers:
        server.shutdown()
        server.server_close()


def _run(*words: str) -> Result:
    return CliRunner().invoke(conformance, [*words, "--wait-seconds", "0"], standalone_mode=False)


def test_a_container_that_answers_as_observed_agrees(replay: Callable[..., str]) -> None:
    ran = _run("--url", replay())
    assert (ran.return_value, "100.0 % agree" in ran.output) == (0, True)


def test_of_another_container_it_is_not_said_that_it_is_ours(replay: Callable[..., str]) -> None:
    assert LOCAL_ONLY not in _run("--url", replay()).output


def test_of_our_own_local_container_it_is_said(replay: Callable[..., str]) -> None:
    assert LOCAL_ONLY in _run("--url", replay(name=LOCAL_SERVER)).output


def test_the_local_container_has_that_name() -> None:
    assert f"Server: {LOCAL_SERVER}\r\n".encode() in encoded(HttpAnswer(200), keep_alive=True)


def _some_wrong(case: Case, answer: ObservedAnswer) -> ObservedAnswer:
    wrong = case.group == "2.20 words"
    return ObservedAnswer(418, answer.content_type, b"") if wrong else answer


def test_any_difference_is_1_and_is_listed(replay: Callable[..., str]) -> None:
    ran = _run("--url", replay(_some_wrong))
    assert (ran.return_value, "2.20 words, 'words csv comma': 418" in ran.output) == (1, True)


def _one_wrong(case: Case, answer: ObservedAnswer) -> ObservedAnswer:
    wrong = (case.group, case.name) == ("2.20 words", "words csv comma")
    return ObservedAnswer(418, answer.content_type, b"") if wrong else answer


def test_one_difference_of_a_whole_container_is_1(replay: Callable[..., str]) -> None:
    assert _run("--url", replay(_one_wrong)).return_value == 1


def test_a_difference_that_a_list_names_with_its_reason_is_0(
    replay: Callable[..., str], tmp_path: Path
) -> None:
    excused = tmp_path / "excused.toml"
    excused.write_text('["2.20 words"]\n"words csv comma" = "our image reads CSV in another way"\n')
    assert _run("--url", replay(_one_wrong), "--excused", str(excused)).return_value == 0


def test_a_list_without_reasons_is_refused(tmp_path: Path) -> None:
    excused = tmp_path / "excused.toml"
    excused.write_text('["2.20 words"]\n"words csv comma" = true\n')
    ran = _run("--url", "http://127.0.0.1:1", "--excused", str(excused))
    assert 'with "CASE" = "reason"' in str(ran.exception)


def _all_wrong(case: Case, answer: ObservedAnswer) -> ObservedAnswer:
    return ObservedAnswer(418, "text/plain", b"") if case.method == "POST" else answer


def test_the_list_of_differences_ends(replay: Callable[..., str]) -> None:
    lines = _run("--url", replay(_all_wrong)).output.splitlines()
    shown = [line for line in lines if line.endswith("more differences: --json lists all")]
    assert (len(lines) < 50, len(shown)) == (True, 1)


def _other_words(case: Case, answer: ObservedAnswer) -> ObservedAnswer:
    """As another model server would write its own errors."""
    text = b"JSON Parse error"
    return (
        replace(answer, body=answer.body.replace(text, b"Cannot parse"))
        if text in answer.body
        else answer
    )


def test_the_model_servers_own_words_may_differ(replay: Callable[..., str]) -> None:
    assert _run("--url", replay(_other_words)).return_value == 0


def test_those_of_the_local_container_may_not(replay: Callable[..., str]) -> None:
    assert _run("--url", replay(_other_words, name=LOCAL_SERVER)).return_value == 1


def test_an_answer_that_is_excused_but_for_its_words_keeps_its_status() -> None:
    (case,) = [one for one in cases() if (one.group, one.name) == ("2.20 handler", "ct x")]
    (group,) = counted([(case, replace(case.answer, status=500))])
    assert [difference.case for difference in group.differences] == [case]


def test_programs_get_groups_differences_and_who_answered(replay: Callable[..., str]) -> None:
    found = json.loads(_run("--url", replay(_some_wrong), "--json").output)
    (words,) = [group for group in found["groups"] if group["group"] == "2.20 words"]
    assert (words["different"], len(found["differences"])) == (13, 13)
    assert (found["local_container_only"], found["unasked"][0]) == (False, "handler")


def test_a_broken_contract_is_1(
    replay: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = replay()
    monkeypatch.setattr(contract, "CHECKS", {"holds": lambda _: None, "sings": lambda _: "silence"})
    ran = _run("--url", url)
    assert (ran.return_value, "plain does not: sings (silence)" in ran.output) == (1, True)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "give --url, --code-url or --at"),
        (("--at", "plain"), "--at plain: expected NAME=URL"),
        (("--at", "words=http://127.0.0.1:1"), "no container 'words'; allowed: plain, handler"),
        (("--url", "127.0.0.1:8080"), "give http://HOST:PORT"),
        (("--url", "http://127.0.0.1:1"), "start it first"),
    ],
)
def test_what_cannot_be_asked_is_said(words: tuple[str, ...], sentence: str) -> None:
    assert sentence in str(_run(*words).exception)


@pytest.mark.parametrize("model", MODELS)
def test_without_one_of_the_models_it_cannot_be_told(
    replay: Callable[..., str], model: str
) -> None:
    ran = _run("--url", replay(models=[name for name in MODELS if name != model]))
    assert (ran.return_value, f"it lacks model {model};" in ran.output) == (3, True)


@pytest.mark.parametrize(
    ("option", "altered", "lacks"),
    [
        ("--code-url", lambda case, answer: answer, "code"),
        ("--url", lambda case, answer: ObservedAnswer(200, "", b"{}"), "an archive without code"),
    ],
)
def test_a_container_with_other_code_is_told_from_one_that_differs(
    replay: Callable[..., str], option: str, altered: Altered, lacks: str
) -> None:
    ran = _run(option, replay(altered))
    assert (ran.return_value, f"it lacks {lacks};" in ran.output) == (3, True)


def test_the_script_starts_every_container_with_its_variables(tmp_path: Path) -> None:
    """With a `docker` that shows how it was called."""
    script = tmp_path / "start.sh"
    script.write_text(start_script(OF_2_20))
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho "$@"\n')
    docker.chmod(0o755)
    ran = subprocess.run(
        ["sh", str(script), "IMAGE"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    started = ran.stdout.splitlines()
    assert len(started) == len(OF_2_20)
    assert f"--volume {tmp_path}/plain:/opt/ml/model:ro" in started[0]
    assert "--env SAGEMAKER_TFS_DEFAULT_MODEL_NAME=mult" in started[0]
    assert started[0].endswith("IMAGE serve")
    assert f"--volume {tmp_path}/multi-model:/opt/ml/models:ro" in started[-1]


def test_an_answer_that_a_check_cannot_read_breaks_the_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (digits,) = (name for name in contract.MODEL_CHECKS if "digit" in name)
    monkeypatch.setattr(contract, "CHECKS", {})
    monkeypatch.setattr(contract, "MODEL_CHECKS", {digits: contract.MODEL_CHECKS[digits]})
    monkeypatch.setattr(
        ContainerTarget, "send", lambda *given, **named: (200, b'{"outputs": [[0.3]]}')
    )
    seen = contract.failures(ContainerTarget("http://127.0.0.1:1"), "")[digits]
    assert "ValueError" in str(seen)
