"""The plan for requests with the same headers: codecs and target, computed for the first of them.

The Accept header is evaluated by RFC 9110, sections 12.4.2 and 12.5.1.
"""

import functools
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servable_handler.call import Aim, aim_of, timeout_of
from servable_handler.prediction import ServedModels
from servable_handler.refusal import RequestError
from servable_handler.settings import Settings
from servable_handler.transport.model_servers import ModelServers
from servable_tensors.codecs import CODECS, CSV, JSON, JSON_LINES, JSON_RECORDS, Codec
from servable_tensors.npy import NpyRelay

_MOST_PLANS = 256
_MOST_LETTERS = 2_000  # plans for longer headers are not kept
PlanKey = tuple[Any, ...]
_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


@dataclass(frozen=True, slots=True)
class Plan:
    """`codec` reads the body, None where a hook does; `answer` writes the answer.

    `relay` is for bodies that go over gRPC without being read.
    """

    aim: Aim
    timeout_seconds: float
    content_type: str
    codec: Codec | None
    answer: Codec
    model: ServedModels
    relay: NpyRelay | None


class Plans:
    """The plans of this process. No connection is opened before the first plan is needed."""

    def __init__(self, settings: Settings, variables: Mapping[str, str], *, hooked: bool) -> None:
        """`hooked` means that the hook preprocess takes any body and returns arrays."""
        self._settings, self._hooked = settings, hooked
        self._grpc_ports = _ports(variables.get("TFS_GRPC_PORTS"))
        self._rest_ports = _ports(variables.get("TFS_REST_PORTS"))
        self._models: dict[tuple[int, ...], ServedModels] = {}
        self._plans: dict[PlanKey, Plan] = {}
        self._process = 0

    def of(self, context: Any, attributes: str | None) -> Plan:
        """The plan for the context's headers. Raises `RequestError`.

        `attributes` are its custom attributes without what differs from request to request.
        """
        if self._process != os.getpid():
            # Created after the fork: connections belong to the process that opened them.
            self._models, self._plans, self._process = {}, {}, os.getpid()
        key = (
            context.model_name,
            context.model_version,
            context.method,
            context.rest_uri,
            context.grpc_port,
            attributes,
            context.request_content_type,
            context.accept_header,
            getattr(context, "timeout", None),
        )
        plan = self._plans.get(key)
        if plan is None:
            plan = self._new_plan(context, attributes)
            if sum(len(part) for part in key if isinstance(part, str)) <= _MOST_LETTERS:
                if len(self._plans) >= _MOST_PLANS:
                    self._plans.clear()
                self._plans[key] = plan
        return plan

    def _new_plan(self, context: Any, attributes: str | None) -> Plan:
        aim, content_type = aim_of(context, attributes), media_type(context.request_content_type)
        codec = None if self._hooked else CODECS.get(content_type)
        if codec is None and not self._hooked:
            raise RequestError(
                415, f"Content-Type {content_type!r:.80} is not supported; send {', '.join(CODECS)}"
            )
        own = (codec.own_answer or codec.content_type) if codec else JSON
        answer = CODECS[chosen(context.accept_header, own)]
        if codec is CODECS[JSON_LINES] and answer.content_type in (JSON_LINES, CSV):
            codec = JSON_RECORDS
        model = self._model(context)
        relays = (
            codec is not None and aim.method == "predict" and self._settings.transport != "rest"
        )
        return Plan(
            aim,
            timeout_of(context, self._settings.timeout_seconds),
            content_type,
            codec,
            answer,
            model,
            model.relay(codec, aim) if codec and relays else None,
        )

    def _model(self, context: Any) -> ServedModels:
        grpc_port = int(context.grpc_port)
        rest_port = int(context.rest_uri.split("/", 3)[2].rpartition(":")[2])
        # In multi-model mode a model has servers of its own, which only the context knows.
        listed = grpc_port in self._grpc_ports and rest_port in self._rest_ports
        ports = (self._grpc_ports, self._rest_ports) if listed else ((grpc_port,), (rest_port,))
        if ports[0] not in self._models:
            self._models[ports[0]] = ServedModels(ModelServers(*ports))
        return self._models[ports[0]]


def _ports(text: str | None) -> tuple[int, ...]:
    return tuple(int(port) for port in (text or "").split(",") if port.strip().isdecimal())


def media_type(header: str) -> str:
    """A header's type without its parameters, in lower case."""
    return header.partition(";")[0].strip().lower()


@functools.lru_cache(maxsize=256)
def chosen(accept: str, own: str) -> str:
    """The content type of the answer, one of `CODECS`; `own` is that of the request's body.

    Each type has the q of the most specific range that matches it. The highest q wins; with equal q
    the more specific one, then the first in the header, then `own`. A header that allows no supported
    type is ignored, as the container does without code.
    """
    ranges = [_parsed(item) for item in accept.lower().split(",")]
    best: tuple[float, int, int, bool] | None = None
    answer_type = own
    # Each codec once, because CODECS has it under every content type that it reads.
    for form in dict.fromkeys(codec.content_type for codec in CODECS.values()):
        matches = [
            (closeness, -position, weight)
            for position, (name, weight) in enumerate(ranges)
            if (closeness := _closeness(name, form))
        ]
        if not matches:
            continue
        closeness, position, weight = max(matches)
        rank = (weight, closeness, position, form == own)
        if weight > 0 and (best is None or rank > best):
            best, answer_type = rank, form
    return answer_type


def _parsed(item: str) -> tuple[str, float]:
    name, *parameters = (part.strip() for part in item.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            # A q that is not a number by the grammar: the range is ignored.
            return (name, float(value.strip())) if _WEIGHT.fullmatch(value.strip()) else ("", 0.0)
    return name, 1.0


def _closeness(name: str, form: str) -> int:
    if name == form:
        return 3
    if name == f"{form.partition('/')[0]}/*":
        return 2
    return 1 if name == "*/*" else 0
