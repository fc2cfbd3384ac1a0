"""Every command in a block of a page works: typed in a copy of the project, or by the test that is named.

`prod` and `local` are deployed once to one local AWS, and `prod` is served by one local container.
"""

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import boto3
import numpy as np
import pytest

import servable.tune.container_space
import servable.tune.page
import servable.tune.tune
from infra.parameters.loading import load
from infra.parameters.overrides import from_options
from servable.captured.lines import RecordedAnswer, format_line
from servable_local.aws import down, status
from servable_local.aws.local_aws import ACCOUNT, REGION
from tests.checkouts import GOLDEN, PATH, ROOT, bootstrapped, checkout, run_in
from tests.conftest import valid
from tests.docs import outputs, test_accepting_page
from tests.docs.check_pages import PROGRAMS
from tests.docs.pages import commands, pages
from tests.docs.test_readme import README
from tests.docs.test_tutorial import PICTURES, TYPED, typed
from tests.presets import synthesised
from tests.servable.replay.captures import request
from tests.servable.test_check_against import git
from tests.servable.tune.formula_trials import FormulaTrials

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

# {what stands on a page: what is typed in its place}
INSTEAD = {
    "FILE": "model.tar.gz",
    "prod.endpoint.name=ranker-blue": "prod.endpoint.name=ranker-prod",  # there is no other
    "s3://BUCKET/captured": "s3://captured-requests/captured",
    "http://127.0.0.1:8081": "http://127.0.0.1:8080",  # one container stands for both
    "12": "1",  # the number of a deployment, where there is one
}
# Seconds instead of minutes, and the local AWS instead of the account.
ALSO = {
    ("servable", "load"): "--users 1 --step-seconds 0.6 --warm-up-seconds 0.2",
    ("servable", "load", "prod", "--target", "deployed"): "--local",
    ("servable", "replay", "prod", "--captured", "requests.jsonl", "--target"): "--local",
    ("servable", "tune"): "--trials 6",
}
# {command: its exit code}: verify finds that an override is not deployed.
EXITS = {
    "servable verify prod --set variants.primary.max_instances=20": 1,
    "servable history prod --restore previous": 2,  # the reader deployed once
}
TOO_BUSY = "excluded: sent late"  # a load test on a busy computer ends with 1
TOO_SLOW = "minutes are too short for a comparison"  # a search on a busy computer ends with 2
SERVED_AT = "http://127.0.0.1:8080"
# Programs of the shell; what they do is seen in the tutorial's test.
SHELL = ("cd", "echo", "eval", "export", "mkdir", "source")
# Which test types a command, and why some are not typed.
_EXCEPTIONS = tomllib.loads((ROOT / "tests/docs/page_commands.toml").read_text(encoding="utf-8"))
TYPED_BY: dict[str, str] = _EXCEPTIONS["typed_by"]
NOT_TYPED: dict[str, str] = _EXCEPTIONS["not_typed"]
Words = tuple[str, ...]


def is_meant(pattern: str, command: str) -> bool:
    """Whether a line of the file is about the command; … stands for any text."""
    return re.fullmatch(re.escape(pattern).replace("…", ".*"), command) is not None


def on_pages() -> dict[Words, list[str]]:
    """{command: the places where it stands in a block}."""
    found: dict[Words, list[str]] = {}
    for page in pages(ROOT, PROGRAMS):
        for command in page.commands():
            if not command.inline and command.program not in SHELL:
                found.setdefault(command.words, []).append(f"{command.page}:{command.line}")
    return found


def _by_other_tests() -> Iterator[Words]:
    """The commands that the tests of the tutorial, the README, the ten steps, and outputs type."""
    for line in (*TYPED, *typed(PICTURES), *README, *test_accepting_page.read_lines()):
        yield from (words for _, words in commands(line))
    yield from outputs.typed()
    for shown in outputs.made_from_files():
        yield from (words for _, words in commands(shown.command))


def typed_here() -> list[Words]:
    """Those that no other test types, in an order in which each finds what it needs."""
    others = set(_by_other_tests())
    here = [
        words
        for words in on_pages()
        if words not in others
        and not any(is_meant(pattern, " ".join(words)) for pattern in TYPED_BY | NOT_TYPED)
        and not {"my-model", "my-model/*"} & set(words)  # the tutorial's, once more
    ]
    return sorted(here, key=lambda words: ("down" in words, "--write" in words))


class Reader:
    """Types commands in `folder` as a reader of the pages does, and keeps what runs meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {**os.environ, "PATH": PATH, "PYTHONPATH": str(folder)}
        self._served: subprocess.Popen[str] | None = None
        self._address = ""
        self._deployed: tuple[int, str] | None = None

    def type(self, words: Words) -> tuple[int, str]:
        """Its exit code and output."""
        typed = [self._walk_own_nodes(word) for word in words]
        for begin, more in ALSO.items():
            if words[: len(begin)] == begin and not set(more.split()) & set(words):
                typed += more.split()
        match typed:
            case ["aws", service, operation, *options]:
                return 0, _asked(service, operation, options)
            case ["cdk", "deploy", *rest]:
                return self._deploy(rest)
            case ["servable", "serve", "prod"] | ["servable", "serve", "prod", "--port", "0"]:
                return 0, self._serving()
            case ["servable", "load" | "tune", *_]:
                with measured_quickly():
                    return outputs.run(typed, self.folder)
            case ["servable", "invoke", *_]:
                self.deployed()
                return outputs.run(typed, self.folder)
            case ["servable", "verify", *_]:
                return self._verify(typed)
            case ["servable", command, *_] if command != "serve":
                return outputs.run(typed, self.folder)
        raise AssertionError(
            "tests/docs/page_commands.toml must say which test types it, or why none"
        )

    def _verify(self, typed: list[str]) -> tuple[int, str]:
        """The exit code and output, once no update or scaling runs: then verify asks to wait."""
        for _ in range(30):
            code, said = outputs.run(typed, self.folder)
            if "wait, then verify again" not in said:
                break
            time.sleep(1)
        return code, said

    def _walk_own_nodes(self, word: str) -> str:
        """The word with what is here instead of the page's example."""
        word = INSTEAD.get(word, word)
        if word.startswith(SERVED_AT):
            self._serving()
            return word.replace(SERVED_AT, self._address)
        if word.endswith("…"):
            places = self.folder.glob(word.replace("…", "*"))
            return str(next(place for place in places if place.is_dir()))
        return word

    def _serving(self) -> str:
        """The line that `servable serve prod` prints, on whatever port is free."""
        if self._served is None:
            log = self.folder / "serve.log"
            self._served = subprocess.Popen(
                [sys.executable, "-m", "servable", "serve", "prod", "--port", "0", "--log", log],
                cwd=self.folder, env=self.environment, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            assert self._served.stdout is not None
            self._line = self._served.stdout.readline()
            self._address = self._line.partition("/invocations")[0]
        return self._line.replace(self._address, SERVED_AT)

    def _deploy(self, rest: list[str]) -> tuple[int, str]:
        """The CLI deploys both environments once. Other commands differ by what they select."""
        if "-c" not in rest and {"prod/*", "local/*"} & set(rest):
            return self.deployed()
        options = [value for option, value in pairwise(rest) if option == "-c"]
        context = dict(option.split("=", 1) for option in options)
        folder = self.folder / context.pop("environments", "environments")
        (pattern,) = (word for word in rest if word.endswith("/*"))
        environments = load(self.folder, folder, from_options(context))
        (selected,) = (one for one in environments if one.name == pattern.removesuffix("/*"))
        return int(not synthesised(valid(selected))), ""

    def deployed(self) -> tuple[int, str]:
        if self._deployed is None:
            words = ["cdk", "deploy", "prod/*", "local/*", "--require-approval", "never"]
            ran = run_in(self.folder, *words, environment=self.environment)
            self._deployed = ran.returncode, ran.stdout + ran.stderr
        return self._deployed

    def close(self) -> None:
        if self._served is not None:
            self._served.send_signal(signal.SIGINT)
            self._served.communicate(timeout=30)


def _asked(service: str, operation: str, options: list[str]) -> str:
    """What the AWS CLI would ask, by boto3: the CLI is not installed with the project."""
    given = {}
    for name, value in zip(options[::2], options[1::2], strict=True):
        words = (word.capitalize() for word in name.removeprefix("--").split("-"))
        given["".join(words).replace("AwsService", "AWSService")] = value
    return str(getattr(boto3.client(service), operation.replace("-", "_"))(**given))


def small_project(folder: Path) -> Path:
    """A copy of this one, committed; its `prod` is the local AWS's account, and one process of each kind."""
    project = checkout(folder / "ranker-service")
    file = project / "environments" / "prod.toml"
    text = file.read_text().replace('"333333333333"', f'"{ACCOUNT}"\nregion = "{REGION}"')
    text = re.sub(r"(tfs_processes +=) 4", r"\1 1", text)
    text = text.replace("[alarms]", "[alarms]\np99_latency_ms = 400")  # on a busy computer
    file.write_text(re.sub(r"(gunicorn_workers =) 16", r"\1 2", text))
    shutil.copy(GOLDEN / "request-rows.json", project / "request.json")
    ids, values = np.zeros((100, 39), np.int64), np.zeros((100, 39), np.float32)
    np.savez(project / "arrays.npz", feat_ids=ids, feat_vals=values)
    (project / "captured").mkdir()
    for place in ("requests.jsonl", "captured/17-02-431.jsonl"):
        (project / place).write_bytes(captured())
    outputs.run(("servable", "package", "prod"), project)
    (archive,) = project.glob(".servable/archives/*.tar.gz")
    shutil.copy(archive, project / "model.tar.gz")
    git(project, "init", "--quiet", "--initial-branch", "main")
    git(project, "add", "environments", "examples", "cdk.json")
    git(project, "commit", "--quiet", "--message", "deployed")
    git(project, "tag", "v1.4")
    return project


def captured() -> bytes:
    """A captured request with its answer, as a line."""
    sent, came = ((GOLDEN / f"{name}-rows.json").read_bytes() for name in ("request", "answer"))
    answer = RecordedAnswer(body=came, content_type="application/json")
    return format_line(request(1, body=sent, answer=answer)) + b"\n"


@contextmanager
def measured_quickly() -> Iterator[None]:
    """`tune` measures a formula, of any point, and no report is drawn: all have tests of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signal, "signal", lambda *_: None)  # of this process: they stay pytest's
        for kind in ("LocalTrials", "TemporaryTrials"):
            patch.setattr(servable.tune.tune, kind, FormulaTrials)
        patch.setattr(servable.tune.container_space, "_find_rejecting_rules", lambda *_: set())
        patch.setattr(servable.tune.page, "write", lambda place, *_, **__: place / "report.html")
        yield


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """With the local AWS up, and both environments deployed to it."""
    folder = small_project(tmp_path_factory.mktemp("pages"))
    made = Reader(folder)
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
            made.environment.pop(name)
        code, said = made.type(("servable", "local", "up", "--minute", "2", "--containers", "3"))
        assert code == 0, said
        aws = status(folder=folder / ".servable")
        assert aws is not None
        made.environment |= aws.environment()
        for name, value in aws.environment().items():
            patch.setenv(name, value)
        try:
            bootstrapped(aws)
            s3, bucket = boto3.client("s3"), "captured-requests"
            s3.create_bucket(Bucket=bucket)
            s3.put_object(Bucket=bucket, Key="captured/17-02-431.jsonl", Body=captured())
            yield made
        finally:
            made.close()
            down(folder=folder / ".servable")


@pytest.fixture(scope="module")
def answers(reader: Reader) -> dict[Words, tuple[int, str]]:
    """{command: exit code and output}. All are typed before the first test, which may be any."""
    found = {}
    for words in typed_here():
        begun = time.monotonic()
        try:
            found[words] = reader.type(words)
        except Exception:
            found[words] = -1, traceback.format_exc()
        print(f"{time.monotonic() - begun:.1f} s", *words)
    return found


@pytest.mark.parametrize("words", typed_here(), ids=" ".join)
def test_a_command_of_a_page_works(words: Words, answers: dict[Words, tuple[int, str]]) -> None:
    code, said = answers[words]
    wanted = 1 if TOO_BUSY in said else EXITS.get(" ".join(words), 0)
    # Which settings are better is no matter of the page.
    tuned = (2,) if TOO_SLOW in said else (0, 1, 3)
    allowed = tuned if words[:2] == ("servable", "tune") else (wanted,)
    assert code in allowed, f"{on_pages()[words]}: {code}: {said}"
    # On a slow computer more than 15 of the local AWS's minutes of 2 s pass before the first request.
    lines = [line for line in said.rstrip().splitlines() if "no requests in the first" not in line]
    shown = [one for one in outputs.shown() if tuple(shlex.split(one.command)) == words]
    wrong = [one.page for one in shown if not one.holds(lines)]
    assert not wrong, f"{wrong} show another output than this:\n{said}"


def test_the_containers_log_has_no_warning(answers: object, reader: Reader) -> None:
    lines = (reader.folder / "serve.log").read_text().splitlines()
    # TensorFlow's import writes this line itself; only standard error leaves it out.
    shown = [line for line in lines if "All log messages before absl" not in line]
    assert not [line for line in shown if "WARNING" in line], shown


def test_every_exception_is_on_a_page_and_names_a_test_that_is_there() -> None:
    commands = [" ".join(words) for words in on_pages()]
    for pattern in TYPED_BY | NOT_TYPED:
        assert any(is_meant(pattern, command) for command in commands), pattern
    for test in sorted(set(TYPED_BY.values())):
        file, _, name = test.partition("::")
        assert f"\ndef {name}(" in (ROOT / file).read_text()
