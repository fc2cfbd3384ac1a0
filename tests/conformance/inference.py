"""The code of the suite's archive: the caller's custom attributes choose what it does.

`do=NAME` answers what ANSWERS has by that name, or calls the function, so that one endpoint serves all cases.
"""

import json
import os
import re
import time
from typing import Any

import falcon
import grpc
import placed_in_lib  # type: ignore[import-not-found]
import requests

IMPORTED_IN = os.getpid()
PREDICT = "/tensorflow.serving.PredictionService/Predict"
STATUS = "/tensorflow.serving.ModelService/GetModelStatus"


ANSWERS = {
    "a_string": ("grüße", "text/plain; charset=utf-8"),
    "some_bytes": (b"\x00\xff", "application/octet-stream"),
    "nothing": (None, "text/plain"),
    "a_dict": ({"predictions": [1]}, "application/json"),
    "a_bare_dict": {"predictions": [1]},
    "from_lib": (placed_in_lib.WORD, "text/plain"),
}


def handler(data: Any, context: Any) -> Any:
    chosen = re.search(r"do=([a-z_]+)", context.custom_attributes or "")
    name = chosen.group(1) if chosen else "pass_on"
    return ANSWERS[name] if name in ANSWERS else globals()[name](data, context)


def pass_on(data: Any, context: Any) -> Any:
    answer = requests.post(context.rest_uri, data=data.read(), timeout=context.timeout)
    return answer.content, "application/json"


def the_context(data: Any, context: Any) -> Any:
    shown = context._asdict() | {"channel": type(context.channel).__module__.split(".")[0]}
    return json.dumps(shown), "application/json"


def fields(data: Any, context: Any) -> Any:
    return json.dumps(context._fields), "application/json"


def the_process(data: Any, context: Any) -> Any:
    shown = {"imported_in": IMPORTED_IN, "pid": os.getpid(), "parent": os.getppid()}
    return json.dumps(shown), "application/json"


def the_environment(data: Any, context: Any) -> Any:
    names = json.loads(data.read())
    return json.dumps({name: os.environ.get(name) for name in names}), "application/json"


def grpc_predict(data: Any, context: Any) -> Any:
    return context.channel.unary_unary(PREDICT)(data.read(), timeout=20), "application/x-protobuf"


def grpc_status(data: Any, context: Any) -> Any:
    return context.channel.unary_unary(STATUS)(data.read(), timeout=20), "application/x-protobuf"


def grpc_error(data: Any, context: Any) -> Any:
    try:
        context.channel.unary_unary(PREDICT)(data.read(), timeout=20)
    except grpc.RpcError as error:
        return error.code().name, "text/plain"


def grpc_port(data: Any, context: Any) -> Any:
    with grpc.insecure_channel(f"127.0.0.1:{context.grpc_port}") as channel:
        channel.unary_unary(STATUS)(data.read(), timeout=20)
    return "answered", "text/plain"


def an_exception(data: Any, context: Any) -> Any:
    raise RuntimeError("the shelf is empty")


def a_refusal(data: Any, context: Any) -> Any:
    raise falcon.HTTPBadRequest(title="No", description="the shelf is empty")


def too_many(data: Any, context: Any) -> Any:
    raise falcon.HTTPTooManyRequests(title="Busy", headers={"Retry-After": "3"})


def a_print(data: Any, context: Any) -> Any:
    print("said on standard output")
    return "", "text/plain"


def echo(data: Any, context: Any) -> Any:
    return data.read(), context.request_content_type


def size(data: Any, context: Any) -> Any:
    return json.dumps([len(data.read()), context.content_length]), "application/json"


def sleep(data: Any, context: Any) -> Any:
    time.sleep(float(data.read()))
    return "slept", "text/plain"
