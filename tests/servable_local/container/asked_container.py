"""Observed and other requests, sent to a container as bytes: many are no ordinary HTTP.

Further requests to the image's code and its start-ups were observed on 2026-11-23.
observed/more_cases.jsonl: 394 requests to the unmodified code of 2.20 behind NGINX 1.22.1 with njs 0.7.9,
and what was answered; more_cases_2026_11_28.jsonl: 29 of that day, of kinds in which the local container
answered otherwise until then. Texts of answers are bytes as latin-1. observed/starts.jsonl: 35 start-ups,
and what /ping and one request answered; starts_2026_11_28.jsonl: further ones. RANGE in their variables
stands for a SAGEMAKER_SAFE_PORT_RANGE from some port to one so much higher.
"""

import base64
import http.client
import json
import socket
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from tests.servable_local.container.observed_cases import (
    NO_ANSWER,
    OBSERVED,
    Agreement,
    Case,
    ObservedAnswer,
)

MODELS_PATH = "/opt/ml/models"
"""Where SageMaker puts the models of multi-model mode."""
_TIMEOUT_SECONDS = 60
# The observer kept so much of a text.
_KEPT_CHARACTERS = 4000
# Server, Date and Content-Length say nothing more.
_HEADERS = ("allow", "connection", "retry-after", "vary", "x-a")
# NGINX takes these, or rejects them with another status. llhttp, a stricter parser, rejects all with 400.
MALFORMED = {"bare LF", "chunk words", "header no colon", "two returns", "tfs latin-1 byte"}
MALFORMED |= {"http 1.100", "http 1.2", "http 11", "http 2.0", "te gzip", "te identity"}
MALFORMED |= {"BREW /invocations", "BREW /ping"}
Row = dict[str, Any]


def read_rows(kind: str) -> list[Row]:
    """Return the `more_cases` or `starts` in their order.

    `setup` of a request is plain (no code), libonly, io, echo or multi.
    """
    files = sorted(OBSERVED.glob(f"{kind}*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def _message(start: str, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    lines = [start, *(f"{name}: {text}" for name, text in headers), "", ""]
    return "\r\n".join(lines).encode() + body


def _exchange(url: str, sent: bytes, method: str) -> tuple[int, dict[str, str], bytes]:
    """Send a request; return the status, the headers by their lower-case names, and the body."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), _TIMEOUT_SECONDS) as connection:
        connection.sendall(sent)
        response = http.client.HTTPResponse(connection, method=method)
        try:
            response.begin()
            headers = {name.lower(): text for name, text in response.getheaders()}
            return response.status, headers, response.read()
        except http.client.IncompleteRead as cut:
            return response.status, headers, cut.partial
        except (http.client.HTTPException, ConnectionError) as error:
            return NO_ANSWER, {}, repr(error).encode()


def ask(url: str, case: Case, models: str) -> ObservedAnswer:
    """Send a case. `models`: the folder that stands for /opt/ml/models."""
    body = case.body.replace(f"{MODELS_PATH}/".encode(), f"{models}/".encode())
    given = {"Host": urlsplit(url).netloc, **case.sent_headers}
    if body or case.method in ("POST", "PUT"):
        given["Content-Length"] = str(len(body))
    sent = _message(f"{case.method} {case.path} HTTP/1.1", given.items(), body)
    status, headers, content = _exchange(url, sent, case.method)
    return ObservedAnswer.of(status, headers.get("content-type", ""), content, headers)


def difference(url: str, row: Row, models: str) -> str:
    """Send a row's request; return how its answer differs from the observed one, or ""."""
    host = urlsplit(url).netloc
    status, headers, body = _exchange(url, _row_message(row, host, models), row["method"])
    if row["case"] in MALFORMED:
        return "" if status == 400 else f"{status}, and 400 is expected"
    body = body.replace(models.encode(), MODELS_PATH.encode())[:_KEPT_CHARACTERS]
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


def _row_message(row: Row, host: str, models: str) -> bytes:
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
    return _message(f"{row['method']} {row['path']} HTTP/{row['version']}", headers, body)


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
