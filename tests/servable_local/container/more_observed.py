"""Further requests to the image's code and its start-ups, observed on 2026-11-23, as data.

observed/more_cases.jsonl: 394 requests to the unmodified code of 2.20 behind NGINX 1.22.1 with njs 0.7.9,
and what was answered; more_cases_2026_11_28.jsonl: 29 of that day, of kinds in which the local container
answered otherwise until then. They are sent as bytes, because many are no ordinary HTTP. Texts of answers are
bytes as latin-1. observed/starts.jsonl: 35 start-ups, and what /ping and one request answered;
starts_2026_11_28.jsonl: further ones. RANGE in their variables stands for a SAGEMAKER_SAFE_PORT_RANGE
from some port to one so much higher.
"""

import base64
import http.client
import json
import shutil
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.servable_local.container.asked_container import MODELS_PATH
from tests.servable_local.container.observed_cases import NO_ANSWER, Agreement, ObservedAnswer
from tests.servable_local.container.observed_models import pack_folder

FOLDER = Path(__file__).parent / "observed"
_TIMEOUT_SECONDS = 30
# The observer kept so much of a text.
_KEPT_CHARACTERS = 4000
# Server, Date and Content-Length say nothing more.
_HEADERS = ("allow", "connection", "retry-after", "vary", "x-a")
# NGINX takes these, or rejects them with another status. llhttp, a stricter parser, rejects all with 400.
MALFORMED = {"bare LF", "chunk words", "header no colon", "two returns", "tfs latin-1 byte"}
MALFORMED |= {"http 1.100", "http 1.2", "http 11", "http 2.0", "te gzip", "te identity"}
MALFORMED |= {"BREW /invocations", "BREW /ping"}
Row = dict[str, Any]


def all_requests() -> list[Row]:
    """Return the requests in their order; `setup` is plain (no code), libonly, io, echo or multi."""
    return _rows("more_cases*.jsonl")


def _rows(pattern: str) -> list[Row]:
    files = sorted(FOLDER.glob(pattern))
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines]


def difference(url: str, row: Row, models: Path) -> str:
    """Send a row's request; return how its answer differs from the observed one, or "".

    `models`: the folder that stands for /opt/ml/models.
    """
    parts = urlsplit(url)
    headers: dict[str, str] = {}
    with socket.create_connection((parts.hostname, parts.port), _TIMEOUT_SECONDS) as connection:
        connection.sendall(message(row, parts.netloc, str(models)))
        response = http.client.HTTPResponse(connection, method=row["method"])
        try:
            response.begin()
            headers = {name.lower(): text for name, text in response.getheaders()}
            status, body = response.status, response.read()
        except http.client.IncompleteRead as cut:
            body = cut.partial
        except (http.client.HTTPException, ConnectionError):
            status, body = NO_ANSWER, b""
    if row["case"] in MALFORMED:
        return "" if status == 400 else f"{status}, and 400 is expected"
    body = body.replace(str(models).encode(), MODELS_PATH.encode())[:_KEPT_CHARACTERS]
    answer = ObservedAnswer.of(status, headers.get("content-type", ""), body, headers)
    expected = row["answer"]
    kept = {name: (headers.get(name), expected["headers"].get(name)) for name in _HEADERS}
    observed = ObservedAnswer.of(
        NO_ANSWER if expected["status"] == "closed" else expected["status"],
        expected["type"],
        expected["body"].encode("latin-1"),
        expected["headers"],
    )
    if observed.agreement(answer) is not Agreement.EQUAL:
        return f"{answer}, observed {observed}"
    return ", ".join(f"{name}: {a}, observed {b}" for name, (a, b) in kept.items() if a != b)


def message(row: Row, host: str, models: str) -> bytes:
    """Return the bytes of a row's request."""
    if row["raw"]:
        return base64.b64decode(row["raw"]).replace(b"HOSTPORT", host.encode())
    body, chunk = base64.b64decode(row["body"]).replace(b"@BASE@", models.encode()), row["chunks"]
    headers = [tuple(pair) for pair in row["headers"]]
    if "no host" not in row["case"]:
        headers.insert(0, ("Host", host))
    if chunk:
        headers.append(("Transfer-Encoding", "chunked"))
        pieces = [body[at : at + chunk] for at in range(0, len(body), chunk)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in [*pieces, b""])
    elif (body or row["method"] == "POST") and "Content-Length" not in dict(headers):
        headers.append(("Content-Length", str(len(body))))
    lines = [f"{row['method']} {row['path']} HTTP/{row['version']}"]
    lines += [f"{name}: {text}" for name, text in headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


def _post(path: str, method: str = "POST", **body: str) -> Row:
    return {
        **{"case": "", "raw": None, "chunks": None, "version": "1.1", "headers": []},
        **{"method": method, "path": path, "body": base64.b64encode(json.dumps(body).encode())},
        "answer": {"status": 0, "type": "", "body": "", "headers": {}},
    }


def _load(name: str, folder: str) -> Row:
    return _post("/models", model_name=name, url=f"@BASE@/{folder}/model")


# Half of what was sent is in the table; these requests, which later answers presuppose, were in the other.
NOT_GIVEN = {
    "load beta": [_load("alpha", "alpha")],
    "load again": [_load("delta", "delta"), _load("alpha2", "alpha")],
    "load version folder": [_load("onlycode", "onlycode")],
    "delete alpha again": [_post("/models/alpha", "DELETE")],
}


def add_containers(folder: Path) -> None:
    """Write below `folder`, beside what `write_containers` wrote there, what only these requests ask."""
    echo, models = folder / "echo", folder / "multi-model"
    (echo / "code").mkdir()
    shutil.copyfile(FOLDER / "code_echo/inference.py.txt", echo / "code/inference.py")
    pack_folder(echo)
    for name, file, text in (
        ("onlycode", "code/lib/x.py", ""),
        ("nohandler", "code/inference.py", "x = 1\n"),
        ("nover", "readme.txt", ""),
    ):
        if name != "nover":
            shutil.copytree(folder / "plain/mult/1", models / name / "model/1")
        (models / name / "model" / file).parent.mkdir(parents=True, exist_ok=True)
        (models / name / "model" / file).write_text(text, encoding="utf-8")


def starts() -> list[Row]:
    """Return the start-ups."""
    return _rows("starts*.jsonl")
