"""What the image's own code answered, request by request, and how far another answer agrees with it.

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
"""Of every container; groups of another model name theirs in the header that SageMaker has for it."""
_OURS = ("alpha", "beta")  # models of the multi-model group that have our handler
_ADDRESS = re.compile(r"(localhost|127\.0\.0\.1):[0-9]+")
# TensorFlow numbers the functions of a model.
_FUNCTION = re.compile(r"__inference_\w+")
_PORTS = re.compile(r"rest port [0-9]+ and grpc port [0-9]+")
_REAL = re.compile(rb"-?[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)")
_TOLERANCE = 1e-4  # float32, by another build of TensorFlow


class Agreement(Enum):
    """How far an answer agrees with the observed one. Numbers may differ in their last digits."""

    EQUAL = "equal"
    OTHER_WORDS = "other words"
    """The same error status and content type; the sentence is another, as a model server's own is."""
    DIFFERENT = "different"


@dataclass(frozen=True)
class ObservedAnswer:
    """What is compared. An error page of NGINX counts by its status and type alone."""

    status: int
    content_type: str | None
    """None where it is not known: SageMaker does not hand on that of an error."""
    body: bytes

    @classmethod
    def of(cls, status: int, content_type: str | None, body: bytes) -> "ObservedAnswer":
        """Without what differs from run to run: ports, and the order of a map in protobuf."""
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
        """`self` is the observed one."""
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
    """One request, and what the image's code answered."""

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
        """What the archive had beside models: nothing, `handler` (ours), or a folder of observed/."""
        return self.archive.partition(", ")[2].removesuffix(", batching")

    @property
    def with_handler(self) -> bool:
        """Whether our own handler answered, as it was then."""
        if self.is_multi_model:
            return any(name in self.path or name in self.body.decode("latin-1") for name in _OURS)
        return self.code in ("handler", "code_transforms")

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
class ObservedContainer:
    """What several groups can be asked of: variables, and what is in code/ beside all models."""

    name: str
    image: str
    code: str
    variables: Mapping[str, str]
    cases: tuple[Case, ...]

    @property
    def is_multi_model(self) -> bool:
        return self.cases[0].is_multi_model


def cases() -> list[Case]:
    """All of the table, in its order."""
    lines = (OBSERVED / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [_case(json.loads(line)) for line in lines]


def changed() -> dict[str, dict[str, str]]:
    """Group -> case -> why our handler answers it otherwise than it did when it was observed."""
    return tomllib.loads((OBSERVED / "changed.toml").read_text(encoding="utf-8"))


def containers(of: Iterable[Case]) -> list[ObservedContainer]:
    """Those that the cases need, each named as its first group is."""
    found: dict[str, list[Case]] = {}
    for case in of:
        variables = dict(case.variables) | {"SAGEMAKER_TFS_DEFAULT_MODEL_NAME": DEFAULT_MODEL}
        if case.is_multi_model:
            variables = dict(case.variables)
        key = json.dumps([case.image, case.code, variables], sort_keys=True)
        found.setdefault(key, []).append(case)
    made = []
    for key, its_cases in found.items():
        image, code, variables = json.loads(key)
        name = its_cases[0].group.partition(" ")[2].partition(" ")[0]
        made.append(ObservedContainer(name, image, code, variables, tuple(its_cases)))
    return made


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
