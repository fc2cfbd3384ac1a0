"""The local container is asked what the image's own code was asked, and has to answer the same.

What our handler answers otherwise since then stands in accepted.toml, each with its reason.
Start-ups are made with the archives and variables of the image's, and have to end or serve as those did.
The last tests are of the comparison itself, and of what is sent for each case.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from servable_local.container.launch import LaunchError, launch
from servable_local.container.settings import PORT_RANGE, SettingsError, read_settings
from servable_tensors import wire
from tests.servable_local.container.asked_container import (
    NOT_GIVEN,
    Row,
    ask,
    difference,
    read_rows,
)
from tests.servable_local.container.observed_cases import (
    ATTRIBUTES,
    Accepted,
    Agreement,
    Case,
    ObservedAnswer,
    group_by_container,
    read_accepted,
    read_cases,
)
from tests.servable_local.container.observed_models import pack_folder, write_containers

CASES = read_cases()
CONTAINERS = {f"{one.image} {one.name}": one for one in group_by_container(CASES)}
# The image was asked where TensorFlow turned oneDNN on by itself, which it does with AVX-512 alone.
AS_THE_IMAGE_DID = {"TF_ENABLE_ONEDNN_OPTS": "1"}
ACCEPTED = read_accepted()
CONTAINERS["2.20 echo"] = replace(CONTAINERS["2.20 io"], name="echo", code="code_echo", cases=())
ROWS = read_rows("more_cases")
SETUPS = {f"2.20 {setup}": setup for setup in ("plain", "libonly", "io", "echo")}
SETUPS["2.20 multi-model"] = "multi"
# docs/local.md, Web pages: refused here, whoever sends them. `no version` has no Host either.
EXCUSED = {"http 1.0 no host", "absolute target", "origin", "no version"}
# The working folder is one of its own; of the other's request of 20 KB the table has the first 4,000 bytes.
EXCUSED |= {"do cwd", "csv long"}
# An error of ours is JSON, whatever the path ends with; a response has no ETag that a client could send back.
EXCUSED |= {"GET /favicon.ico", "GET /index.html", "if-none-match"}


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of every container, below the image's version."""
    folder = tmp_path_factory.mktemp("observed")
    write_containers(CONTAINERS.values(), folder)
    return folder


@pytest.fixture
def url(name: str, prepared: Path) -> Iterator[str]:
    """The URL of a local container that serves what the table's container of this name did."""
    container = CONTAINERS[name]
    archive = prepared / container.image / f"{container.name}.tar.gz"
    variables = {**AS_THE_IMAGE_DID, **container.variables}
    served = None if container.is_multi_model else archive
    with launch(served, variables, tensorflow=container.image) as process:
        yield process.url


@pytest.mark.long
@pytest.mark.parametrize("name", CONTAINERS)
def test_the_local_container_answers_as_the_image_did(name: str, url: str, prepared: Path) -> None:
    container = CONTAINERS[name]
    models = str(prepared / container.image / container.name)
    further = {}
    for row in [row for row in ROWS if row["setup"] == SETUPS.get(name)]:
        for earlier in NOT_GIVEN.get(row["case"], ()) if container.is_multi_model else ():
            difference(url, earlier, models)
        if said := difference(url, row, models):
            further[row["case"]] = said
    if container.is_multi_model:
        for model in requests.get(f"{url}/models", timeout=60).json():
            requests.delete(f"{url}/models/{model}", timeout=60)
    # After those: one of these requests ends the model server.
    seen = [(case, case.answer.agreement(ask(url, case, models))) for case in container.cases]
    wrong = {case.key: each for case, each in seen if not ACCEPTED.accept(case, each)}
    agreeing = {case.key for case, each in seen if each is Agreement.EQUAL}
    assert (wrong, further.keys() - EXCUSED) == ({}, set()), further
    assert agreeing & ACCEPTED.cases.keys() == set()


def test_few_answers_differ_and_each_is_a_case() -> None:
    assert sum(row["case"] in EXCUSED for row in ROWS) <= len(ROWS) * 3 / 100

    others = [case for case in CASES if not _with_handler(case)]
    differ = [case for case in others if case.key in ACCEPTED.cases]
    assert len(differ) <= len(others) / 100
    assert {case.key for case in CASES} >= ACCEPTED.cases.keys()
    assert not {case for case in REFUSED | HANGS if STARTS[case]["answer"][0] == "up"}


STARTS = {row["case"]: row for row in read_rows("starts")}
# docs/local.md: what the image hangs on is refused, with the variable and what is allowed.
HANGS = {"instances 0", "workers 0 with code", "nginx loglevel loud"}
# Refused before anything is started, by the variables alone.
REFUSED = {"instances abc", "batching yes", "wait 1.5", "class eventlet", "class Gevent"}
REFUSED |= {"multi yes", "gunicorn timeout 0", "instances 0", "nginx loglevel loud"}
ECHO = {"class eventlet", "class Gevent", "gunicorn loglevel loud", "workers 0 with code"}
ECHO |= {"proxy timeout 5 gunicorn 3", "threads 0 gthread", "gunicorn timeout 0"}
VOCABULARY = "words = open('/opt/ml/model/code/vocab.txt').read().split()"
HANDLER = "{}\ndef handler(data, context): return {}, 'text/plain'\n"
# Start-up -> its files beside mult/1; those of ECHO have code_echo.
FILES = {
    "no handlers in inference.py": {"code/inference.py": "x = 1\n"},
    "code/helper.py alone": {"code/helper.py": "x = 1\n"},
    "input_handler alone": {"code/inference.py": "def input_handler(data, context): ...\n"},
    "no model": {"readme.txt": ""},
    "requirements.txt alone, empty": {"code/requirements.txt": ""},
    "version folder without SavedModel": {"mult/2/readme.txt": ""},
    "/opt/ml/model path in code": {
        "code/inference.py": HANDLER.format(VOCABULARY, "str(words)"),
        "code/vocab.txt": "a b c",
    },
    "code/serve.py": {
        "code/inference.py": HANDLER.format("import serve", "serve.load()"),
        "code/serve.py": "def load(): ...\n",
    },
    "version is a file": {"mult/5": ""},
    "inference.py is a folder": {"code/inference.py/x": ""},
    "import tfs_utils": {
        "code/inference.py": HANDLER.format("import tfs_utils", "tfs_utils.DEFAULT_ACCEPT_HEADER")
    },
}
VERSIONS = {"no model": (), "v0": ("mult/0",), "v0 and v1": ("mult/0", "mult/1")}
VERSIONS |= {"versions at the root": ("1",), "name with <": ("a<b/1",)}


def _variables(row: Row) -> dict[str, str]:
    variables = dict(row["vars"])
    if "RANGE" in variables:
        variables[PORT_RANGE] = f"21000-{21000 + int(variables.pop('RANGE'))}"
    return variables


def test_variables_are_refused_where_the_image_ends_or_hangs_over_them() -> None:
    for case in STARTS:
        try:
            read_settings(_variables(STARTS[case]), gunicorn=case in ECHO)
        except SettingsError:
            assert case in REFUSED
        else:
            assert case not in REFUSED


@pytest.mark.long
@pytest.mark.parametrize("case", [case for case in STARTS if case not in REFUSED | HANGS])
def test_a_container_starts_or_ends_as_the_image_did(
    case: str, prepared: Path, tmp_path: Path
) -> None:
    state, *answers = STARTS[case]["answer"]
    folder = tmp_path / "model"
    folder.mkdir()
    for version in VERSIONS.get(case, ("mult/1",)):
        shutil.copytree(prepared / "2.20/plain/mult/1", folder / version)
    for name, text in FILES.get(case, {}).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    if case in ECHO:
        shutil.copytree(prepared / "2.20/echo/code", folder / "code")
    archive = pack_folder(folder)
    row, headers = b'{"instances": [[1.0, 2.0]]}', {"Content-Type": JSON}
    try:
        with launch(archive, _variables(STARTS[case]), tensorflow="2.20") as process:
            found = [
                requests.get(f"{process.url}/ping", timeout=60),
                requests.post(f"{process.url}/invocations", row, headers=headers, timeout=60),
            ]
    except LaunchError:
        assert state == "ended"
    else:
        texts = [one.content.decode().replace("nginx<", "nginx/1.22.1<") for one in found]
        # The observer kept 120 characters of a success.
        assert [
            [one.status_code, text[: len(seen[1])]]
            for one, text, seen in zip(found, texts, answers, strict=True)
        ] == answers


def _with_handler(case: Case) -> bool:
    if case.is_multi_model:  # these two of its models have our handler
        return any(name in case.path or name.encode() in case.body for name in ("alpha", "beta"))
    return case.code in ("handler", "code_transforms")


JSON = "application/json"
NUMBERS, ERROR = (200, JSON, "[1.0, 2.5]"), (400, JSON, '{"error": "no"}')


def _answer(status: int, content_type: str, text: str, **headers: str) -> ObservedAnswer:
    return ObservedAnswer(status, content_type, text.encode(), tuple(headers.items()))


def test_how_far_an_answer_agrees() -> None:
    for observed, seen, agreement in [
        (NUMBERS, NUMBERS, Agreement.EQUAL),
        (NUMBERS, (200, JSON, "[1.00000005, 2.5]"), Agreement.LAST_DIGITS),
        (NUMBERS, (200, JSON, "[1.00, 2.5]"), Agreement.DIFFERENT),
        (NUMBERS, (200, JSON, "[1.001, 2.5]"), Agreement.DIFFERENT),
        (NUMBERS, (200, JSON, "[1.0,\n 2.5]"), Agreement.DIFFERENT),
        (NUMBERS, (200, "text/csv", "[1.0, 2.5]"), Agreement.DIFFERENT),
        ((200, JSON, "[10000001]"), (200, JSON, "[10000002]"), Agreement.DIFFERENT),
        (ERROR, (400, JSON, '{"error": "not"}'), Agreement.OTHER_WORDS),
        (ERROR, (400, JSON, '{"error": ""}'), Agreement.DIFFERENT),
        (ERROR, (400, JSON, '{"why": "no"}'), Agreement.DIFFERENT),
        (ERROR, (400, JSON, "no"), Agreement.DIFFERENT),
        (ERROR, (500, JSON, '{"error": "no"}'), Agreement.DIFFERENT),
    ]:
        assert _answer(*observed).agreement(_answer(*seen)) is agreement
    allowing = _answer(405, "", "", allow="POST")
    assert allowing.agreement(_answer(405, "", "")) is Agreement.DIFFERENT


def test_arrays_agree_but_for_their_last_digits_and_messages_but_for_no_field() -> None:
    by_key = {case.key: case for case in CASES}
    npz = by_key["2.20 texth", "text npz npz"]
    assert npz.answer.agreement(npz.answer) is Agreement.EQUAL

    case = by_key["2.20 handler", "pb pb"]
    message = wire.PredictResponse.FromString(case.answer.body)
    message.model_spec.version.value += 1
    other = replace(case.answer, body=message.SerializeToString(deterministic=True))
    assert case.answer.agreement(other) is Agreement.DIFFERENT


def test_a_difference_is_accepted_as_far_as_its_entry_says() -> None:
    case, other, *_ = CASES
    for allowed in Agreement:
        of_case, of_model = Accepted({case.key: allowed}, {}), Accepted({}, {case.model: allowed})
        for entries in (of_case, of_model):
            accepted = {each for each in Agreement if entries.accept(case, each)}
            every = set(Agreement) if allowed is Agreement.DIFFERENT else {Agreement.EQUAL, allowed}
            assert accepted == every
        assert not of_case.accept(other, Agreement.DIFFERENT)


def test_every_case_is_asked_of_one_container_with_the_attributes_of_its_group() -> None:
    assert sum(len(container.cases) for container in group_by_container(CASES)) == len(CASES)
    (case,) = [one for one in group_by_container(CASES)[0].cases if one.name == "words csv comma"]
    assert case.sent_headers[ATTRIBUTES] == "tfs-model-name=words"

    (case,) = [one for one in CASES if one.name == "text sig attr" and one.image == "2.20"]
    assert case.sent_headers[ATTRIBUTES] == "tfs-signature-name=size,tfs-model-name=text"
