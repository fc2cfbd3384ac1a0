"""What requests with the same headers have in common: worked out for the first of them."""

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servable_handler.accept import JSON, NPY, chosen, media_type
from servable_handler.call import Aim, aim_of, timeout_of
from servable_handler.forms import own_form
from servable_handler.npy_relay import NpyRelay
from servable_handler.prediction import Model
from servable_handler.settings import Settings
from servable_handler.transport.model_servers import ModelServers

_MOST_PLANS = 256
_MOST_LETTERS = 2_000  # of headers: a caller's oddities are not kept
Told = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """`form` is the answer's; `relay` is for .npy bodies that go over gRPC as they are."""

    aim: Aim
    timeout_seconds: float
    content_type: str
    form: str
    model: Model
    relay: NpyRelay | None


class Plans:
    """Those of this process; with nothing of the network until one is asked for."""

    def __init__(self, settings: Settings, variables: Mapping[str, str], *, hooked: bool) -> None:
        """`hooked`: the hook preprocess takes any body, and gives arrays."""
        self._settings, self._hooked = settings, hooked
        self._grpc_ports = _ports(variables.get("TFS_GRPC_PORTS"))
        self._rest_ports = _ports(variables.get("TFS_REST_PORTS"))
        self._models: dict[tuple[int, ...], Model] = {}
        self._plans: dict[Told, Plan] = {}
        self._process = 0

    def of(self, context: Any) -> Plan:
        """Raises `RequestError`."""
        if self._process != os.getpid():
            # After a fork: connections belong to the process that made them.
            self._models, self._plans, self._process = {}, {}, os.getpid()
        told = (
            context.model_name,
            context.model_version,
            context.method,
            context.rest_uri,
            context.grpc_port,
            context.custom_attributes,
            context.request_content_type,
            context.accept_header,
            getattr(context, "timeout", None),
        )
        plan = self._plans.get(told)
        if plan is None:
            plan = self._made(context)
            self._keep(told, plan)
        return plan

    def _made(self, context: Any) -> Plan:
        aim, content_type = aim_of(context), media_type(context.request_content_type)
        form = chosen(context.accept_header, JSON if self._hooked else own_form(content_type))
        model = self._model(context)
        as_bytes = content_type == NPY and not self._hooked and aim.method == "predict"
        return Plan(
            aim,
            timeout_of(context, self._settings.timeout_seconds),
            content_type,
            form,
            model,
            model.npy_relay(aim) if as_bytes and self._settings.transport != "rest" else None,
        )

    def _keep(self, told: Told, plan: Plan) -> None:
        if sum(len(one) for one in told if isinstance(one, str)) > _MOST_LETTERS:
            return
        if len(self._plans) >= _MOST_PLANS:
            self._plans.clear()
        self._plans[told] = plan

    def _model(self, context: Any) -> Model:
        grpc_port, rest_port = int(context.grpc_port), _port_of(context.rest_uri)
        # In multi-model mode a model has servers of its own, which only the context knows.
        listed = grpc_port in self._grpc_ports and rest_port in self._rest_ports
        ports = (self._grpc_ports, self._rest_ports) if listed else ((grpc_port,), (rest_port,))
        if ports[0] not in self._models:
            self._models[ports[0]] = Model(ModelServers(*ports))
        return self._models[ports[0]]


def _ports(text: str | None) -> tuple[int, ...]:
    return tuple(int(port) for port in (text or "").split(",") if port.strip().isdecimal())


@functools.lru_cache(maxsize=256)
def _port_of(uri: str) -> int:
    return int(uri.split("/", 3)[2].rpartition(":")[2])
