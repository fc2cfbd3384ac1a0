"""One request, from its body to its answer: the container calls `handler(data, context)`.

Text without hooks is relayed over REST: the model server's parser beats Python's. Arrays and
protobuf go over gRPC. docs/serving.md describes bodies, answers and errors.
"""

import logging
from collections.abc import Mapping
from typing import Any

from servable_handler.accept import JSON, NPY, PROTOBUF
from servable_handler.call import Call
from servable_handler.forms import TEXTS, check_sendable_as_text, decoded, encoded, explain
from servable_handler.hooks import Hooks
from servable_handler.npy_relay import answer_in
from servable_handler.plan import Plans
from servable_handler.prediction import Model, error_of, outputs_of, request_of, said
from servable_handler.record import Record
from servable_handler.refusal import RequestError, as_falcon, falcon_answer, refusal_of
from servable_handler.request_body import read_body
from servable_handler.settings import Settings
from servable_tensors.errors import TensorError
from servable_tensors.protobuf_walk import check_model_spec, check_predict_request
from servable_tensors.tensors import Arrays
from servable_tensors.text_bodies import with_signature

LOG = logging.getLogger("servable")
_GRPC_METHODS = {"predict": "Predict", "classify": "Classify", "regress": "Regress"}
Answer = tuple[bytes, str]


class Handler:
    """`handler(data, context)`. Holds nothing of the network until the first request."""

    def __init__(self, settings: Settings, hooks: Hooks, variables: Mapping[str, str]) -> None:
        self._settings, self._hooks = settings, hooks
        self._plans = Plans(settings, variables, hooked=hooks.preprocess is not None)

    def __call__(self, data: Any, context: Any) -> Answer:
        """Body and content type. Raises a falcon.HTTPError for every status but 200."""
        record = Record()
        try:
            body, content_type = self._answer(data, context, record)
        except (RequestError, TensorError) as error:
            refusal = refusal_of(error)
            record.refused(refusal.status, refusal.message)
            raise as_falcon(refusal, self._timing(record)) from None
        except Exception as error:
            # Our own mistake. Its message may quote the request, so that it stays here.
            LOG.error("the handler failed: %s", _where(error))
            failure = RequestError(500, f"the handler failed ({type(error).__name__})")
            record.refused(500, failure.message)
            raise as_falcon(failure, {}) from None
        record.answered(200, len(body), content_type)
        if self._settings.timing_header:
            raise falcon_answer(200, body, content_type, self._timing(record))
        return body, content_type

    def _answer(self, data: Any, context: Any, record: Record) -> Answer:
        plan = self._plans.of(context)
        call = plan.aim.within(plan.timeout_seconds)
        content_type, form, model = plan.content_type, plan.form, plan.model
        body = read_body(data, context.content_length)
        record.facts = {"in": content_type, "bytes_in": len(body), "model": call.model}
        record.stage("read")
        request = plan.relay.request(body) if plan.relay is not None else None
        if request is not None:
            record.stage("decode")
            reply = model.servers.grpc("Predict", request, call)
            return self._answer_of(reply, form, call, record, context, rows=False)
        hooked = self._hooks.preprocess is not None
        if not hooked and self._relays(content_type, form, len(body), call):
            return self._text(body, content_type, call, model, record)
        if call.method != "predict" and (hooked or content_type != PROTOBUF or form != PROTOBUF):
            raise RequestError(
                400,
                f"tfs-method: {call.method} takes JSON and gives JSON, or protobuf and protobuf",
            )
        if not hooked and content_type == PROTOBUF and self._settings.transport != "rest":
            return self._protobuf(body, form, call, model, record, context)
        signature = model.signature(call)
        if hooked:
            arrays, rows = self._hooks.arrays(body, context, signature), True
        else:
            arrays, rows = decoded(content_type, body, signature)
        if self._settings.transport == "rest":
            if not hooked:
                check_sendable_as_text(arrays, len(body))
            record.stage("decode")
            outputs: Arrays = model.over_rest(arrays, signature, call)
            record.stage("model")
            return self._encoded(outputs, form, call, record, context, rows=rows)
        request = request_of(arrays, signature, call)
        if plan.relay is not None:
            plan.relay.learn(body, request, signature.inputs[signature.only_input()].dtype)
        record.stage("decode")
        reply = model.servers.grpc("Predict", request, call)
        return self._answer_of(reply, form, call, record, context, rows=rows)

    def _answer_of(
        self, reply: bytes, form: str, call: Call, record: Record, context: Any, *, rows: bool
    ) -> Answer:
        record.stage("model")
        if self._hooks.postprocess is None:
            if form == PROTOBUF:
                return reply, PROTOBUF
            if form == NPY and (answer := answer_in(reply)) is not None:
                record.stage("encode")
                return answer, NPY
        return self._encoded(outputs_of(reply), form, call, record, context, rows=rows)

    def _relays(self, content_type: str, form: str, body_bytes: int, call: Call) -> bool:
        if content_type not in TEXTS or form != JSON:
            return False
        if call.method != "predict":
            return True
        return self._hooks.postprocess is None and self._settings.relays_text(body_bytes)

    def _text(
        self, body: bytes, content_type: str, call: Call, model: Model, record: Record
    ) -> Answer:
        text = TEXTS[content_type](body)
        if call.signature:
            text = with_signature(text, call.signature)
        record.stage("decode")
        status, answer = model.servers.rest(call.path, text, call)
        record.stage("model")
        if status == 200:
            return answer, JSON
        if status == 400 and call.method == "predict":
            self._explain(body, content_type, said(answer), call, model)
        raise RequestError(status, error_of(answer) or f"the model server answered {status}")

    def _protobuf(
        self, body: bytes, form: str, call: Call, model: Model, record: Record, context: Any
    ) -> Answer:
        predicts = call.method == "predict"
        named = check_predict_request(body) if predicts else check_model_spec(body)
        record.stage("decode")
        request = body + call.overriding(body_names_model=named)
        try:
            reply = model.servers.grpc(_GRPC_METHODS[call.method], request, call)
        except RequestError as refusal:
            # 500: a server's parser may know no better word for what is no message, as for
            # a name that is not UTF-8.
            if refusal.status in (400, 500) and predicts:
                self._explain(body, PROTOBUF, refusal.message, call, model)
            raise
        return self._answer_of(reply, form, call, record, context, rows=False)

    def _encoded(
        self, outputs: Arrays, form: str, call: Call, record: Record, context: Any, *, rows: bool
    ) -> Answer:
        if self._hooks.postprocess is not None:
            body, content_type = self._hooks.body(outputs, context)
        else:
            body, content_type = encoded(form, outputs, rows=rows, call=call), form
        record.stage("encode")
        return body, content_type

    def _explain(
        self, body: bytes, content_type: str, refusal: str, call: Call, model: Model
    ) -> None:
        """Raises a `RequestError` that names the tensor, where the signature tells which it is."""
        try:
            explain(content_type, body, model.signature(call))
        except (RequestError, TensorError) as error:
            clearer = refusal_of(error)
            if clearer.status == 400:
                raise RequestError(400, f"{clearer.message}. The model server: {refusal}") from None

    def _timing(self, record: Record) -> dict[str, str]:
        return {"Server-Timing": record.server_timing()} if self._settings.timing_header else {}


def _where(error: BaseException) -> str:
    places, trace = [], error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        places.append(f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}")
        trace = trace.tb_next
    return f"{type(error).__name__} at {' > '.join(places)}"
