"""Requests to the image's own code with its responses, and how far other responses agree with these.

observed/cases.jsonl was observed with the unmodified code of the image (2.20, or up to 2.19 where a
case says so) behind NGINX, with our model server behind it: what the container does before and after
user code is the image's; texts of the model server and numbers are ours. observed/accepted.toml lists
the differences that are accepted. models.py.txt makes the models; code_io and code_transforms are the
code of some groups.
"""

import base64
import contextlib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from servable_tensors import TensorError, wire
from servable_tensors.codecs import CODECS

OBSERVED = Path(__file__).parent / "observed"
ATTRIBUTES = "X-Amzn-SageMaker-Custom-Attributes"
DEFAULT_MODEL = "mult"
"""The default model of every container; other groups name their model in SageMaker's header."""
NO_ANSWER = 0
"""The status of a request that got no HTTP response."""
_MULTI_MODEL = "SAGEMAKER_MULTI_MODEL"
_ADDRESS = re.compile(r"(localhost|127\.0\.0\.1):[0-9]+")
# TensorFlow numbers the functions of a model.
_FUNCTION = re.compile(r"__inference_\w+")
_PORTS = re.compile(r"rest port [0-9]+ and grpc port [0-9]+")
_REAL = re.compile(rb"-?[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)")
_TOLERANCE = 1e-5  # float32, by a different build of TensorFlow
_PROTOBUF = "application/x-protobuf"
_HEADERS = ("allow", "retry-after")


class Agreement(Enum):
    """Result of comparing a response with the observed one."""

    EQUAL = "equal"
    LAST_DIGITS = "last digits"
    """Equal except for numbers that differ by at most a hundred-thousandth."""
    OTHER_WORDS = "other words"
    """The same error status and content type, and JSON of the same keys, with a different message."""
    DIFFERENT = "different"


@dataclass(frozen=True)
class ObservedAnswer:
    """The compared parts of a response. An error page of NGINX counts by status and type alone."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()
    """Those of Allow and Retry-After."""

    @classmethod
    def of(
        cls, status: int, content_type: str, body: bytes, headers: Mapping[str, str]
    ) -> "ObservedAnswer":
        """Return a response without what differs from run to run: ports, the order of protobuf maps."""
        kept = tuple((name, headers[name]) for name in _HEADERS if headers.get(name))
        if body.startswith(b"<html>"):
            return cls(status, content_type, b"<html>", kept)
        if content_type == _PROTOBUF and status == 200:
            with contextlib.suppress(DecodeError):
                message = wire.PredictResponse.FromString(body)
                ordered = message.SerializeToString(deterministic=True)
                return cls(status, content_type, ordered, kept)
        text = body.decode("latin-1")
        for pattern, word in ((_PORTS, "ports"), (_ADDRESS, "HOST:PORT"), (_FUNCTION, "function")):
            text = pattern.sub(word, text)
        return cls(status, content_type, text.encode("latin-1"), kept)

    def agreement(self, other: "ObservedAnswer") -> Agreement:
        """Return how far `other` agrees with this observed response."""
        mine = (self.status, self.content_type, self.headers)
        if mine != (other.status, other.content_type, other.headers):
            return Agreement.DIFFERENT
        if self.body == other.body:
            return Agreement.EQUAL
        if self.status == 200:
            return self._compare_numbers(other)
        same_keys = self.status >= 400 and _read_keys(self.body) == _read_keys(other.body)
        return Agreement.OTHER_WORDS if same_keys else Agreement.DIFFERENT

    def _compare_numbers(self, other: "ObservedAnswer") -> Agreement:
        codec = CODECS.get(self.content_type)
        if codec is not None and not codec.is_text:
            try:
                mine, others = codec.read_response(self.body), codec.read_response(other.body)
            except (TensorError, ValueError):
                return Agreement.DIFFERENT
            if mine.keys() != others.keys():
                return Agreement.DIFFERENT
            arrays = [(mine[name], others[name]) for name in mine]
            if self.content_type == _PROTOBUF:
                if _read_model_spec(self.body) != _read_model_spec(other.body):
                    return Agreement.DIFFERENT
                # TensorFlow Serving may write the same tensor in a different field.
                if all(np.array_equal(a, b) for a, b in arrays):
                    return Agreement.EQUAL
            close = all(
                (a.dtype, a.shape, a.dtype.kind) == (b.dtype, b.shape, "f")
                and np.allclose(a, b, _TOLERANCE, _TOLERANCE, equal_nan=True)
                for a, b in arrays
            )
        else:
            numbers = [
                (a, b, float(a), float(b))
                for a, b in zip(_REAL.findall(self.body), _REAL.findall(other.body), strict=False)
            ]
            # The same number in a different notation differs by more than its last digits.
            close = _REAL.split(self.body) == _REAL.split(other.body) and all(
                a == b or (x != y and math.isclose(x, y, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE))
                for a, b, x, y in numbers
            )
        return Agreement.LAST_DIGITS if close else Agreement.DIFFERENT


@dataclass(frozen=True)
class Case:
    """One request, and the response of the image's code."""

    group: str
    name: str
    image: str
    """Version of the image whose code responded: 2.20, or 2.19 for those up to it."""
    archive: str
    variables: Mapping[str, str]
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    answer: ObservedAnswer

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.name

    @property
    def model(self) -> str:
        return self.archive.partition(", ")[0]

    @property
    def code(self) -> str:
        """Code in the archive: none, `handler` (Servable's), or a folder of observed/."""
        return self.archive.partition(", ")[2].removesuffix(", batching")

    @property
    def is_multi_model(self) -> bool:
        return _MULTI_MODEL in self.variables

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers, with the name of the group's model where it isn't the container's default."""
        headers = dict(self.headers)
        if not self.is_multi_model and self.model != DEFAULT_MODEL:
            named = f"tfs-model-name={self.model}"
            headers[ATTRIBUTES] = ",".join(filter(None, [headers.get(ATTRIBUTES), named]))
        return headers


@dataclass(frozen=True)
class ContainerSetup:
    """A container that can respond to several groups: its variables, and the code beside all models."""

    name: str
    image: str
    code: str
    variables: Mapping[str, str]
    cases: tuple[Case, ...] = ()

    @property
    def is_multi_model(self) -> bool:
        return _MULTI_MODEL in self.variables


def read_cases() -> list[Case]:
    """Return all cases of the table, in its order."""
    lines = (OBSERVED / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [_read_case(json.loads(line)) for line in lines]


@dataclass(frozen=True)
class Accepted:
    """Differences that are accepted: the entries of accepted.toml."""

    cases: Mapping[tuple[str, str], Agreement]
    """(group, name of a case) -> what must still agree."""
    models: Mapping[str, Agreement]
    """Model -> what must still agree in all of its cases."""

    def accept(self, case: Case, agreement: Agreement) -> bool:
        """Return whether a response that agrees so far with the observed one is accepted."""
        allowed = {Agreement.EQUAL, self.cases.get(case.key), self.models.get(case.model)}
        return agreement in allowed or Agreement.DIFFERENT in allowed


def read_accepted() -> Accepted:
    """Return the differences that are accepted."""
    cases: dict[tuple[str, str], Agreement] = {}
    models: dict[str, Agreement] = {}
    file = OBSERVED / "accepted.toml"
    for entry in tomllib.loads(file.read_text(encoding="utf-8"))["accepted"]:
        agreement = Agreement(entry["agreement"])
        models |= dict.fromkeys(entry.get("models", ()), agreement)
        for group, names in entry.get("cases", {}).items():
            cases |= {(group, name): agreement for name in names}
    return Accepted(cases, models)


def group_by_container(cases: Iterable[Case]) -> list[ContainerSetup]:
    """Return the containers that the cases need, each named after its first group."""
    setups: dict[str, ContainerSetup] = {}
    for case in cases:
        variables = dict(case.variables)
        if not case.is_multi_model:
            variables["SAGEMAKER_TFS_DEFAULT_MODEL_NAME"] = DEFAULT_MODEL
        key = json.dumps([case.image, case.code, variables], sort_keys=True)
        name = case.group.partition(" ")[2].partition(" ")[0]
        setup = setups.setdefault(key, ContainerSetup(name, case.image, case.code, variables))
        setups[key] = replace(setup, cases=(*setup.cases, case))
    return list(setups.values())


def _read_case(line: dict[str, Any]) -> Case:
    request, answer = line["request"], line["answer"]
    headers, content = answer["headers"], _read_bytes(answer)
    return Case(
        group=f"{line['image']} {line['setup']}",
        name=line["case"],
        **{key: line[key] for key in ("image", "archive", "variables")},
        **{key: request[key] for key in ("method", "path", "headers")},
        body=_read_bytes(request),
        answer=ObservedAnswer.of(
            answer["status"], headers.get("content-type", ""), content, headers
        ),
    )


def _read_bytes(part: dict[str, str]) -> bytes:
    return base64.b64decode(part["base64"]) if "base64" in part else part["text"].encode()


def _read_keys(body: bytes) -> object:
    """Return the keys of an error in JSON and its title, which stay when its message changes."""
    try:
        error = json.loads(body)
    except ValueError:
        return body
    if not isinstance(error, dict) or not all(isinstance(text, str) for text in error.values()):
        return body
    return sorted(error), error.get("title"), all(error.values())


def _read_model_spec(body: bytes) -> bytes:
    message = wire.PredictResponse.FromString(body)
    message.ClearField("outputs")
    return bytes(message.SerializeToString(deterministic=True))
