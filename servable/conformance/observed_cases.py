"""Observed answers of the image's own code to each request, and their comparison with other answers.

observed/cases.jsonl was observed with the unmodified code of the image (2.20, and up to 2.19 where
a case says so) behind NGINX, with a model server of ours behind it: what the container does before
and after user code is the image's, texts of the model server and numbers are ours.
observed/changed.toml names the answers of our own handler that are others since, each with its
reason. models.py.txt makes the models; code_io and code_transforms are the code of some groups.
"""

import base64
import contextlib
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
_ADDRESS = re.compile(r"(localhost|127\.0\.0\.1):[0-9]+")
# TensorFlow numbers the functions of a model.
_FUNCTION = re.compile(r"__inference_\w+")
_PORTS = re.compile(r"rest port [0-9]+ and grpc port [0-9]+")
_REAL = re.compile(rb"-?[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)")
_TOLERANCE = 1e-4  # float32, by another build of TensorFlow


class Agreement(Enum):
    """Result of comparing an answer with the observed one; numbers may differ in their last digits."""

    EQUAL = "equal"
    OTHER_WORDS = "other words"
    """The same error status and content type, with another message, as from another model server."""
    DIFFERENT = "different"


@dataclass(frozen=True)
class ObservedAnswer:
    """The compared parts of an answer. An error page of NGINX counts by status and type alone."""

    status: int
    content_type: str | None
    """None if unknown: SageMaker does not pass on the content type of an error."""
    body: bytes

    @classmethod
    def of(cls, status: int, content_type: str | None, body: bytes) -> "ObservedAnswer":
        """Return an answer without what differs from run to run: ports and the order of protobuf maps."""
        if body.startswith(b"<html>"):
            return cls(status, content_type, b"<html>")
        if content_type == "application/x-protobuf" and status == 200:
            with contextlib.suppress(DecodeError):
                message = wire.PredictResponse.FromString(body)
                return cls(status, content_type, message.SerializeToString(deterministic=True))
        text = body.decode("latin-1")
        for pattern, word in ((_PORTS, "ports"), (_ADDRESS, "HOST:PORT"), (_FUNCTION, "function")):
            text = pattern.sub(word, text)
        return cls(status, content_type, text.encode("latin-1"))

    def agreement(self, other: "ObservedAnswer") -> Agreement:
        """Return how far `other` agrees with this observed answer."""
        known = other.content_type is not None
        if self.status != other.status or (known and self.content_type != other.content_type):
            return Agreement.DIFFERENT
        if self.body == other.body or (self.status == 200 and self._close_to(other)):
            return Agreement.EQUAL
        return Agreement.OTHER_WORDS if self.status >= 400 else Agreement.DIFFERENT

    def _close_to(self, other: "ObservedAnswer") -> bool:
        codec = CODECS.get(self.content_type or "")
        if codec is not None and not codec.is_text:
            try:
                mine, others = codec.read_answer(self.body), codec.read_answer(other.body)
            except (TensorError, ValueError):
                return False
            return mine.keys() == others.keys() and all(
                mine[name].dtype == others[name].dtype
                and mine[name].shape == others[name].shape
                and mine[name].dtype.kind == "f"
                and np.allclose(mine[name], others[name], _TOLERANCE, _TOLERANCE, equal_nan=True)
                for name in mine
            )
        if _REAL.split(self.body) != _REAL.split(other.body):
            return False
        pairs = zip(_REAL.findall(self.body), _REAL.findall(other.body), strict=True)
        return all(
            math.isclose(float(a), float(b), rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
            for a, b in pairs
        )


@dataclass(frozen=True)
class Case:
    """One request, and the answer of the image's code."""

    group: str
    name: str
    image: str
    """Version of the image whose code answered: 2.20, or 2.19 for those up to it."""
    archive: str
    variables: Mapping[str, str]
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    answer: ObservedAnswer

    @property
    def model(self) -> str:
        return self.archive.partition(", ")[0]

    @property
    def code(self) -> str:
        """Code in the archive: none, `handler` (Servable's), or a folder of observed/."""
        return self.archive.partition(", ")[2].removesuffix(", batching")

    @property
    def is_multi_model(self) -> bool:
        return "SAGEMAKER_MULTI_MODEL" in self.variables

    @property
    def sent_headers(self) -> dict[str, str]:
        """The headers, with the name of the group's model where it is not the container's default."""
        headers = dict(self.headers)
        if not self.is_multi_model and self.model != DEFAULT_MODEL:
            named = f"tfs-model-name={self.model}"
            headers[ATTRIBUTES] = ",".join(filter(None, [headers.get(ATTRIBUTES), named]))
        return headers


@dataclass(frozen=True)
class ContainerSetup:
    """A container that can answer several groups: its variables, and the code beside all models."""

    name: str
    image: str
    code: str
    variables: Mapping[str, str]
    cases: tuple[Case, ...]

    @property
    def is_multi_model(self) -> bool:
        return self.cases[0].is_multi_model


def cases() -> list[Case]:
    """Return all cases of the table, in its order."""
    lines = (OBSERVED / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [_case(json.loads(line)) for line in lines]


def changed() -> dict[str, dict[str, str]]:
    """Return group -> case -> why Servable's handler answers it differently now."""
    return tomllib.loads((OBSERVED / "changed.toml").read_text(encoding="utf-8"))


def containers(of: Iterable[Case]) -> list[ContainerSetup]:
    """Return the containers that the cases need, each named after its first group."""
    cases_by_setup: dict[str, list[Case]] = {}
    for case in of:
        variables = dict(case.variables)
        if not case.is_multi_model:
            variables["SAGEMAKER_TFS_DEFAULT_MODEL_NAME"] = DEFAULT_MODEL
        key = json.dumps([case.image, case.code, variables], sort_keys=True)
        cases_by_setup.setdefault(key, []).append(case)
    setups = []
    for key, its_cases in cases_by_setup.items():
        image, code, variables = json.loads(key)
        name = its_cases[0].group.partition(" ")[2].partition(" ")[0]
        setups.append(ContainerSetup(name, image, code, variables, tuple(its_cases)))
    return setups


def _case(line: dict[str, Any]) -> Case:
    request, answer = line["request"], line["answer"]
    content_type = answer["headers"].get("content-type", "")
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
        ObservedAnswer.of(answer["status"], content_type, _bytes(answer)),
    )


def _bytes(part: dict[str, str]) -> bytes:
    return base64.b64decode(part["base64"]) if "base64" in part else part["text"].encode()
