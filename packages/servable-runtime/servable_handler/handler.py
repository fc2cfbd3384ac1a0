"""Handling of a request from body to response: the container calls `handler(data, context)`.

Text without hooks is relayed over REST, because the model server's parser is faster than
Python's. Arrays and protobuf go over gRPC. docs/serving.md describes bodies, responses and
errors.
"""

import json
import logging
import time
import traceback
from collections.abc import Mapping
from typing import Any

from servable_handler.hooks import Hooks
from servable_handler.prediction import (
    Plan,
    Plans,
    ServedModels,
    apply_body_names,
    build_request,
    check_sendable_as_text,
    extract_message,
    parse_error,
    read_outputs,
)
from servable_handler.request import (
    Call,
    RequestError,
    as_falcon_exception,
    build_falcon_exception,
    convert_error,
)
from servable_handler.settings import Settings
from servable_tensors import TensorError
from servable_tensors.codecs import JSON, Codec
from servable_tensors.protobuf_walk import check_predict_request, has_named_model
from servable_tensors.tensors import Arrays
from servable_tensors.text_bodies import add_signature
from servable_tensors.trace_context import split_trace

LOG = logging.getLogger("servable")
# The largest payload that SageMaker sends to a container, by batch transform: MaxPayloadInMB.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateTransformJob.html
MOST_BODY_BYTES = 100 * 1_000_000
_GRPC_METHODS = {"predict": "Predict", "classify": "Classify", "regress": "Regress"}
Answer = tuple[bytes, str]


class Record:
    """The log record of one request: a structured log line without bodies, and the stages' durations."""

    __slots__ = ("_began", "_ends", "facts")

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._ends: list[tuple[str, float]] = []
        self.facts: dict[str, object] = {}

    def end_stage(self, name: str) -> None:
        """End the stage `name`, which began at the end of the previous stage."""
        self._ends.append((name, time.perf_counter()))

    def compute_stages_ms(self) -> list[tuple[str, float]]:
        """Return the stages, in order, with their durations in milliseconds."""
        began = [self._began, *(end for _, end in self._ends)]
        return [
            (name, (end - start) * 1000)
            for (name, end), start in zip(self._ends, began, strict=False)
        ]

    def log_response(self, status: int, bytes_out: int, content_type: str) -> None:
        """Log a response at level debug."""
        if LOG.isEnabledFor(logging.DEBUG):
            self._write_log(logging.DEBUG, status=status, bytes_out=bytes_out, out=content_type)

    def log_rejection(self, status: int, message: str) -> None:
        """Log a warning without the model server's messages, which may quote values."""
        if LOG.isEnabledFor(logging.WARNING):
            self._write_log(logging.WARNING, status=status, reason=message.partition(":")[0][:100])

    def _write_log(self, level: int, **more: object) -> None:
        total = time.perf_counter() - self._began
        stages = {name: round(ms, 3) for name, ms in self.compute_stages_ms()}
        times = {"ms": round(total * 1000, 3), "stages_ms": stages}
        LOG.log(level, "%s", json.dumps({"event": "request", **self.facts, **more, **times}))


class Handler:
    """The callable `handler(data, context)`. It opens no connection before the first request."""

    def __init__(self, settings: Settings, hooks: Hooks, variables: Mapping[str, str]) -> None:
        self._settings, self._hooks = settings, hooks
        self._plans = Plans(settings, variables, hooked=hooks.preprocess is not None)

    def __call__(self, data: Any, context: Any) -> Answer:
        """Return the response's body and content type.

        Raises a falcon.HTTPError for every status but 200, and for a 200 with the timing header.
        """
        record = Record()
        try:
            body, content_type = self._respond(data, context, record)
        except (RequestError, TensorError) as error:
            refusal = convert_error(error)
            record.log_rejection(refusal.status, refusal.message)
            raise as_falcon_exception(refusal, self._build_timing_header(record)) from None
        except Exception as error:
            # A bug of the handler. Its message may quote the request, so it is not sent.
            places = (
                f"{frame.f_code.co_filename.rpartition('/')[2]}:{line}"
                for frame, line in traceback.walk_tb(error.__traceback__)
            )
            LOG.error("the handler failed: %s at %s", type(error).__name__, " > ".join(places))
            failure = RequestError(500, f"the handler failed ({type(error).__name__})")
            record.log_rejection(500, failure.message)
            raise as_falcon_exception(failure, {}) from None
        record.log_response(200, len(body), content_type)
        if self._settings.timing_header:
            raise build_falcon_exception(200, body, content_type, self._build_timing_header(record))
        return body, content_type

    def _respond(self, data: Any, context: Any, record: Record) -> Answer:
        attributes = context.custom_attributes
        if attributes:
            attributes, record.facts = split_trace(attributes)
        plan = self._plans.provide_plan(context, attributes)
        call = Call(*plan.call[:-1], time.monotonic() + plan.timeout_seconds)
        codec, model = plan.codec, plan.model
        body = read_body(data, context.content_length)
        record.facts |= {"in": plan.content_type, "bytes_in": len(body), "model": call.model}
        record.end_stage("read")
        request = plan.relay.build_request(body) if plan.relay is not None else None
        if request is not None:
            record.end_stage("decode")
            reply = model.servers.call_grpc("Predict", request, call)
            return self._convert_reply(reply, plan, call, record, context, rows=False)
        if codec is not None and self._can_relay(codec, plan, len(body)):
            return self._relay_text(body, codec, plan, call, record)
        message = codec is not None and codec.is_message
        if call.method != "predict" and not (message and plan.answer.is_message):
            raise RequestError(
                400,
                f"tfs-method: {call.method} requires the same format, JSON or protobuf, in Content-Type and "
                "Accept",
            )
        if codec is not None and message and self._settings.transport != "rest":
            reply = self._send_message(body, codec, model, call, record)
            return self._convert_reply(reply, plan, call, record, context, rows=False)
        if codec is not None:
            call = apply_body_names(body, codec, call)
        signature = model.find_signature(call)
        if codec is None:
            arrays, rows = self._hooks.run_preprocess(body, context, signature), True
        else:
            arrays, rows = codec.read_request(body, signature)
        if self._settings.transport == "rest":
            if codec is not None:
                check_sendable_as_text(arrays, len(body))
            record.end_stage("decode")
            outputs: Arrays = model.predict_over_rest(arrays, signature, call)
            record.end_stage("model")
            return self._encode_outputs(outputs, plan, call, record, context, rows=rows)
        request = build_request(arrays, signature, call)
        if plan.relay is not None:
            plan.relay.learn(body, request, signature)
        record.end_stage("decode")
        reply = model.servers.call_grpc("Predict", request, call)
        return self._convert_reply(reply, plan, call, record, context, rows=rows)

    def _convert_reply(
        self, reply: bytes, plan: Plan, call: Call, record: Record, context: Any, *, rows: bool
    ) -> Answer:
        record.end_stage("model")
        if (
            self._hooks.postprocess is None
            and (handed := plan.answer.relay_reply(reply)) is not None
        ):
            if handed is not reply:
                record.end_stage("encode")
            return handed, plan.answer.content_type
        return self._encode_outputs(read_outputs(reply), plan, call, record, context, rows=rows)

    def _encode_outputs(
        self, outputs: Arrays, plan: Plan, call: Call, record: Record, context: Any, *, rows: bool
    ) -> Answer:
        if self._hooks.postprocess is not None:
            body, content_type = self._hooks.run_postprocess(outputs, context)
        else:
            body = plan.answer.encode_response(outputs, rows=rows, model_spec=call.build_model_spec)
            content_type = plan.answer.content_type
        record.end_stage("encode")
        return body, content_type

    def _can_relay(self, codec: Codec, plan: Plan, body_bytes: int) -> bool:
        """Return whether to relay the body to the REST port as text, and its reply unchanged."""
        if not codec.is_text or plan.answer.content_type != JSON:
            return False
        if plan.call.method != "predict":
            return True
        most = self._settings.grpc_from_bytes
        small = self._settings.transport == "auto" and (most is None or body_bytes < most)
        return self._hooks.postprocess is None and (small or self._settings.transport == "rest")

    def _relay_text(
        self, body: bytes, codec: Codec, plan: Plan, call: Call, record: Record
    ) -> Answer:
        text = codec.to_json(body)
        if call.signature:
            text = add_signature(text, call.signature)
        if call.method == "predict":
            plan.model.check_ranks(text, call)
        record.end_stage("decode")
        status, answer = plan.model.servers.call_rest(call.path, text, call)
        record.end_stage("model")
        if status == 200:
            return answer, JSON
        if status == 400 and call.method == "predict":
            self._raise_clearer_error(body, codec, extract_message(answer), call, plan.model)
        problem = f"the model server responded with status {status}"
        raise RequestError(status, parse_error(answer) or problem)

    def _send_message(
        self, body: bytes, codec: Codec, model: ServedModels, call: Call, record: Record
    ) -> bytes:
        predicts = call.method == "predict"
        if predicts:
            described = check_predict_request(body)
            model.check_message_ranks(described, call)
            named = described.model_named
        else:
            named = has_named_model(body)
        record.end_stage("decode")
        request = body + call.build_override(body_names_model=named)
        try:
            return model.servers.call_grpc(_GRPC_METHODS[call.method], request, call)
        except RequestError as refusal:
            # A server's parser may respond with 500 to a body that isn't a message, for example with
            # a name that isn't UTF-8.
            if refusal.status in (400, 500) and predicts:
                self._raise_clearer_error(body, codec, refusal.message, call, model)
            raise

    def _raise_clearer_error(
        self, body: bytes, codec: Codec, refusal: str, call: Call, model: ServedModels
    ) -> None:
        """Raise a `RequestError` that names the wrong tensor, if the signature shows which."""
        try:
            signature = model.find_signature(apply_body_names(body, codec, call))
            codec.check_rejected_body(body, signature)
        except (RequestError, TensorError) as error:
            clearer = convert_error(error)
            if clearer.status == 400:
                raise RequestError(400, f"{clearer.message}. The model server: {refusal}") from None

    def _build_timing_header(self, record: Record) -> dict[str, str]:
        """Return the header Server-Timing, if enabled. Source: https://www.w3.org/TR/server-timing/"""
        if not self._settings.timing_header:
            return {}
        stages = ", ".join(f"{name};dur={ms:.3f}" for name, ms in record.compute_stages_ms())
        return {"Server-Timing": stages}


def read_body(stream: Any, length: int | None) -> bytes:
    """Read a body of `length` bytes; None: it is chunked. Raises `RequestError` for other lengths."""
    if length is None:
        body: bytes = stream.read(MOST_BODY_BYTES + 1)
    elif length > MOST_BODY_BYTES:
        raise _build_size_error(f"{length} bytes")
    else:
        # Gunicorn's body reads 1024 bytes at a time from its own reader until release 26: 4 MB cost
        # 9 CPU-ms that way, and 2.5 if the reader is called for all of it. The body's buffer is
        # still empty, because nothing has been read from it.
        reader = getattr(stream, "reader", None)
        whole: Any = reader if type(reader).__name__ == "LengthReader" else stream
        body = whole.read(length) if length else b""
        if len(body) < length:
            problem = f"the body ended after {len(body)} of {length} bytes (Content-Length)"
            raise RequestError(400, problem)
    if len(body) > MOST_BODY_BYTES:
        raise _build_size_error(f"more than {MOST_BODY_BYTES} bytes")
    return body


def _build_size_error(what: str) -> RequestError:
    return RequestError(
        413,
        f"the body has {what}; the maximum is {MOST_BODY_BYTES} bytes; send less in one request",
    )
