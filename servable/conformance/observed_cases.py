"""Observed answers of the image's own code to each request, and their comparison with other answers.

observed/cases.jsonl was observed with the unmodified code of the image (2.20, and up to 2.19 where
a case says so) behind NGINX, with a model server of ours behind it: what the container does before
and after user code is the image's, texts of the model server and numbers are ours.
observed/changed.toml names the answers of our own handler that are others since, and excused.toml
what may differ anywhere, each with its reason. models.py.txt makes the models; code_io and
code_transforms are the code of some groups.
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

from infra.policy.container import DEFAULT_MODEL_NAME, MULTI_MODEL_SWITCH
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
_TOLERANCE = 1e-5  # float32, by another build of TensorFlow
_PROTOBUF = "application/x-protobuf"
# Compared where the observed answer has them.
_HEADERS = ("allow", "retry-after")
NO_ANSWER = 0
"""The status of a request that got no HTTP answer."""


class Agreement(Enum):
    """Result of comparing an answer with the observed one. All but EQUAL need an excuse."""

    EQUAL = "equal"
    LAST_DIGITS = "last digits"
    """The same but for numbers that differ by at most a hundred-thousandth."""
    OTHER_WORDS = "other words"
    """The same error status and content type, and JSON of the same keys, with another message."""
    DIFFERENT = "different"


@dataclass(frozen=True)
class ObservedAnswer:
    """The compared parts of an answer. An error page of NGINX counts by status and type alone."""

    status: int
    content_type: str | None
    """None if unknown: SageMaker does not pass on the content type of an error."""
    body: bytes
    headers: tuple[tuple[str, str], ...] | None = None
    """Those of Allow and Retry-After; None if unknown."""

    @classmethod
    def of(
        cls,
        status: int,
        content_type: str | None,
        body: bytes,
        headers: Mapping[str, str] | None = None,
    ) -> "ObservedAnswer":
        """Return an answer without what differs from run to run: ports and the order of protobuf maps."""
        kept = None
        if headers is not None:
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
        """Return how far `other` agrees with this observed answer."""
        known = other.content_type is not None
        if self.status != other.status or (known and self.content_type != other.content_type):
            return Agreement.DIFFERENT
        if other.headers is not None and (self.headers or ()) != other.headers:
            return Agreement.DIFFERENT
        if self.body == other.body:
            return Agreement.EQUAL
        if self.status == 200:
            return self._compared_numbers(other)
        same_keys = self.status >= 400 and _keys(self.body) == _keys(other.body)
        return Agreement.OTHER_WORDS if same_keys else Agreement.DIFFERENT

    def _compared_numbers(self, other: "ObservedAnswer") -> Agreement:
        codec = CODECS.get(self.content_type or "")
        if codec is not None and not codec.is_text:
            try:
                mine, others = codec.read_answer(self.body), codec.read_answer(other.body)
            except (TensorError, ValueError):
                return Agreement.DIFFERENT
            if mine.keys() != others.keys():
                return Agreement.DIFFERENT
            if self.content_type == _PROTOBUF:
                if _model_spec(self.body) != _model_spec(other.body):
                    return Agreement.DIFFERENT
                # TensorFlow Serving may write the same tensor in another field.
                if all(np.array_equal(mine[name], others[name]) for name in mine):
                    return Agreement.EQUAL
            close = all(
                mine[name].dtype == others[name].dtype
                and mine[name].shape == others[name].shape
                and mine[name].dtype.kind == "f"
                and np.allclose(mine[name], others[name], _TOLERANCE, _TOLERANCE, equal_nan=True)
                for name in mine
            )
            return Agreement.LAST_DIGITS if close else Agreement.DIFFERENT
        if _REAL.split(self.body) != _REAL.split(other.body):
            return Agreement.DIFFERENT
        pairs = zip(_REAL.findall(self.body), _REAL.findall(other.body), strict=True)
        # The same number written in another way is no matter of last digits.
        close = all(
            a == b
            or (
                float(a) != float(b)
                and math.isclose(float(a), float(b), rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
            )
            for a, b in pairs
        )
        return Agreement.LAST_DIGITS if close else Agreement.DIFFERENT


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
        return MULTI_MODEL_SWITCH in self.variables

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
        return MULTI_MODEL_SWITCH in self.variables


def cases() -> list[Case]:
    """Return all cases of the table, in its order."""
    lines = (OBSERVED / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [_case(json.loads(line)) for line in lines]


def changed() -> dict[str, dict[str, str]]:
    """Return group -> case -> why Servable's handler answers it differently now."""
    return tomllib.loads((OBSERVED / "changed.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Excuses:
    """Differences that are accepted, each with its reason: the columns of excused.toml."""

    other_words: Mapping[str, str]
    """Part of an observed error -> why its message may have other words."""
    last_digits: Mapping[str, str]
    """Model -> why the last digits of its numbers may differ."""

    def accept(self, case: Case, agreement: Agreement, *, is_local: bool) -> bool:
        """Whether an answer that agrees so far with the observed one counts as the image's."""
        if agreement is Agreement.LAST_DIGITS:
            return case.model in self.last_digits
        if agreement is Agreement.OTHER_WORDS:
            text = case.answer.body.decode("utf-8", "replace")
            return not is_local and any(part in text for part in self.other_words)
        return agreement is Agreement.EQUAL


def excuses() -> Excuses:
    """Return what may differ from the observed answers, wherever it is asked."""
    return Excuses(**tomllib.loads((OBSERVED / "excused.toml").read_text(encoding="utf-8")))


def containers(of: Iterable[Case]) -> list[ContainerSetup]:
    """Return the containers that the cases need, each named after its first group."""
    cases_by_setup: dict[str, list[Case]] = {}
    for case in of:
        variables = dict(case.variables)
        if not case.is_multi_model:
            variables[DEFAULT_MODEL_NAME] = DEFAULT_MODEL
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
        ObservedAnswer.of(answer["status"], content_type, _bytes(answer), answer["headers"]),
    )


def _bytes(part: dict[str, str]) -> bytes:
    return base64.b64decode(part["base64"]) if "base64" in part else part["text"].encode()


def _keys(body: bytes) -> object:
    """The keys of an error in JSON and its title, by which an error in other words is the same."""
    try:
        error = json.loads(body)
    except ValueError:
        return body
    if not isinstance(error, dict) or not all(isinstance(text, str) for text in error.values()):
        return body
    return sorted(error), error.get("title"), all(error.values())


def _model_spec(body: bytes) -> bytes:
    message = wire.PredictResponse.FromString(body)
    message.ClearField("outputs")
    return bytes(message.SerializeToString(deterministic=True))
