"""What the image's own code answered, request by request, and asking the local container the same.

cases.jsonl was observed with the unmodified code of the image (2.20, and up to 2.19 where a case
says so) behind NGINX, with a model server of ours behind it: what the container does before and
after user code is the image's, texts of the model server and numbers are ours. models.py.txt makes
the models; code_io and code_transforms are the code of the groups that have some.
"""

import base64
import contextlib
import http.client
import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from servable_local.container.launch import launch
from servable_tensors import wire
from tests.servable_handler.endpoints import packed

HERE = Path(__file__).parent
OURS = ("alpha", "beta")
"""The models of the multi-model group that have our handler."""
_ADDRESS = re.compile(r"(localhost|127\.0\.0\.1):[0-9]+")
_PORTS = re.compile(r"rest port [0-9]+ and grpc port [0-9]+")


@dataclass(frozen=True)
class Answer:
    """What is compared. An error page of NGINX counts by its status and type alone."""

    status: int
    content_type: str
    body: bytes

    @classmethod
    def of(cls, status: int, content_type: str | None, body: bytes) -> "Answer":
        content_type = content_type or ""
        if body.startswith(b"<html>"):
            return cls(status, content_type, b"<html>")
        if content_type == "application/x-protobuf" and status == 200:
            # A map's entries come in any order.
            with contextlib.suppress(DecodeError):
                message = wire.PredictResponse.FromString(body)
                return cls(status, content_type, message.SerializeToString(deterministic=True))
        text = body.decode("latin-1")
        text = _PORTS.sub("ports", _ADDRESS.sub("HOST:PORT", text))
        return cls(status, content_type, text.encode("latin-1"))


@dataclass(frozen=True)
class Case:
    """One request, and what the image's code answered."""

    group: str
    name: str
    image: str
    archive: str
    variables: Mapping[str, str]
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    answer: Answer

    @property
    def with_handler(self) -> bool:
        """Whether our own handler answered, as it was then."""
        if self.is_multi_model:
            return any(name in self.path or name in self.body.decode("latin-1") for name in OURS)
        return "handler" in self.archive or "transforms" in self.archive

    @property
    def is_multi_model(self) -> bool:
        return "SAGEMAKER_MULTI_MODEL" in self.variables

    @property
    def endpoint(self) -> str:
        """Cases with the same one are asked of the same container."""
        return json.dumps([self.image, self.archive, self.variables], sort_keys=True)


def cases() -> list[Case]:
    lines = (HERE / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [_case(json.loads(line)) for line in lines]


def _case(line: dict[str, Any]) -> Case:
    request, answer = line["request"], line["answer"]
    content_type = answer["headers"].get("content-type")
    return Case(
        f"{line['image']} {line['setup']}",
        line["case"],
        line["image"],
        line["archive"],
        line["variables"],
        request["method"],
        request["path"],
        request["headers"],
        _bytes(request),
        Answer.of(answer["status"], content_type, _bytes(answer)),
    )


def _bytes(part: dict[str, str]) -> bytes:
    return base64.b64decode(part["base64"]) if "base64" in part else part["text"].encode()


def asked(url: str, case: Case, folders: Mapping[str, Path]) -> Answer:
    """The answer of the container at `url`: with these headers and no other but Host and length.

    `folders` stand for those that the image had of models, by their names.
    """
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    sent = case.body
    for name, folder in folders.items():
        sent = sent.replace(f"/opt/ml/models/{name}/model".encode(), str(folder).encode())
    try:
        connection.putrequest(case.method, case.path, skip_accept_encoding=True)
        for name, value in case.headers.items():
            connection.putheader(name, value)
        if sent or case.method in ("POST", "PUT"):
            connection.putheader("Content-Length", str(len(sent)))
        connection.endheaders(sent or None)
        response = connection.getresponse()
        try:
            content = response.read()
        except http.client.IncompleteRead as cut:
            content = cut.partial
        return Answer.of(response.status, response.getheader("Content-Type"), content)
    finally:
        connection.close()


@contextlib.contextmanager
def serving(case: Case, models: Path, folder: Path) -> Iterator[str]:
    """The address of a local container that serves what the case's group was observed with."""
    if case.is_multi_model:
        with launch(None, case.variables, tensorflow=case.image) as process:
            yield process.url
        return
    name, _, with_ = case.archive.partition(", ")
    archive = packed(
        folder / "model.tar.gz",
        {name: models / name},
        handler=case.with_handler,
        files=_code(with_),
    )
    with launch(archive, case.variables, tensorflow=case.image) as process:
        yield process.url


def _code(with_: str) -> dict[str, bytes]:
    if with_ == "code/lib/x.py only":
        return {"code/lib/x.py": b""}
    for name in ("code_io", "code_transforms"):
        if name in with_:
            return {
                f"code/{file.relative_to(HERE / name).as_posix().removesuffix('.txt')}": (
                    file.read_bytes().replace(b"from serving.hooks", b"from servable_handler.hooks")
                )
                for file in (HERE / name).rglob("*.py.txt")
            }
    return {}


def unpacked_models(models: Path, folder: Path) -> dict[str, Path]:
    """Folders that the multi-model group's POST /models name: alpha, beta, gamma and delta."""
    found = {}
    contents = {"alpha": "mult, handler", "beta": "mult, handler, code_transforms"}
    contents |= {"gamma": "text", "delta": "mult, code_io"}
    for name, archive in contents.items():
        model, _, with_ = archive.partition(", ")
        file = packed(
            folder / f"{name}.tar.gz",
            {version.name: version for version in (models / model).iterdir()},
            handler="handler" in with_,
            files=_code(with_),
        )
        found[name] = folder / name
        with tarfile.open(file) as tar:
            tar.extractall(found[name], filter="data")
    return found
