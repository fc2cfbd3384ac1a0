"""The local container is asked what the image's own code was asked, and has to answer the same.

What our handler answers otherwise since then stands in accepted.toml, each with its reason.
Start-ups are made with the archives and variables of the image's, and have to end or serve as those did.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from servable_local.container.launch import LaunchError, launch
from servable_local.container.settings import PORT_RANGE, SettingsError, read_settings
from tests.servable_local.container.asked_container import AskedContainer
from tests.servable_local.container.more_observed import (
    NOT_GIVEN,
    Row,
    add_containers,
    all_requests,
    difference,
    starts,
)
from tests.servable_local.container.observed_cases import (
    Agreement,
    Case,
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
CONTAINERS["2.20 echo"] = replace(CONTAINERS["2.20 io"], name="echo", code="", cases=())
SETUPS = {"2.20 multi-model": "multi"} | {
    f"2.20 {setup}": setup for setup in ("plain", "libonly", "io", "echo")
}
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
    add_containers(folder / "2.20")
    return folder


@pytest.fixture
def local(name: str, prepared: Path) -> Iterator[AskedContainer]:
    """A local container that serves what the table's container of this name did."""
    container = CONTAINERS[name]
    folder = prepared / container.image
    archive = None if container.is_multi_model else folder / f"{container.name}.tar.gz"
    variables = {**AS_THE_IMAGE_DID, **container.variables}
    with launch(archive, variables, tensorflow=container.image) as process:
        yield AskedContainer(process.url, str(folder / container.name))


@pytest.mark.long
@pytest.mark.parametrize("name", CONTAINERS)
def test_the_local_container_answers_as_the_image_did(
    name: str, local: AskedContainer, prepared: Path
) -> None:
    container, models = CONTAINERS[name], prepared / "2.20/multi-model"
    further = {}
    for row in [row for row in all_requests() if row["setup"] == SETUPS.get(name)]:
        for earlier in NOT_GIVEN.get(row["case"], ()) if container.is_multi_model else ():
            difference(local.url, earlier, models)
        if said := difference(local.url, row, models):
            further[row["case"]] = said
    # After those: one of these requests ends the model server.
    seen = [(case, case.answer.agreement(answer)) for case, answer in local.ask_all(container)]
    wrong = {case.key: each for case, each in seen if not ACCEPTED.accept(case, each)}
    agreeing = {case.key for case, each in seen if each is Agreement.EQUAL}
    assert (wrong, further.keys() - EXCUSED) == ({}, set()), further
    assert agreeing & ACCEPTED.cases.keys() == set()


def test_few_answers_differ_and_each_is_a_case() -> None:
    rows = all_requests()
    assert sum(row["case"] in EXCUSED for row in rows) <= len(rows) * 3 / 100

    others = [case for case in CASES if not _with_handler(case)]
    differ = [case for case in others if case.key in ACCEPTED.cases]
    assert len(differ) <= len(others) / 100
    assert {case.key for case in CASES} >= ACCEPTED.cases.keys()
    assert not {case for case in REFUSED | HANGS if STARTS[case]["answer"][0] == "up"}


STARTS = {row["case"]: row for row in starts()}
# docs/local.md: what the image hangs on is refused, with the variable and what is allowed.
HANGS = {"instances 0", "workers 0 with code", "nginx loglevel loud"}
# Refused before anything is started, by the variables alone.
REFUSED = {
    "instances abc",
    "batching yes",
    "wait 1.5",
    "class eventlet",
    "class Gevent",
    "multi yes",
}
REFUSED |= {"gunicorn timeout 0", "instances 0", "nginx loglevel loud"}
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
    try:
        with launch(archive, _variables(STARTS[case]), tensorflow="2.20") as process:
            container = AskedContainer(process.url)
            found = [container.send("GET", "/ping")]
            found += [container.send("POST", "/invocations", b'{"instances": [[1.0, 2.0]]}')]
    except LaunchError:
        assert state == "ended"
    else:
        texts = [text.decode().replace("nginx<", "nginx/1.22.1<") for _, text in found]
        # The observer kept 120 characters of a success.
        assert [
            [status, text[: len(seen[1])]]
            for (status, _), text, seen in zip(found, texts, answers, strict=True)
        ] == answers


def _with_handler(case: Case) -> bool:
    if case.is_multi_model:  # these two of its models have our handler
        return any(name in case.path or name.encode() in case.body for name in ("alpha", "beta"))
    return case.code in ("handler", "code_transforms")
