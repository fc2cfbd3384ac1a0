"""Functions that the container would call otherwise than they are defined are found; no others are."""

import ast
from pathlib import Path

import pytest

from model_packaging.handler_functions import find_function_faults

PAIR = "def input_handler(data, context):\n    return data.read()\n"
RIGHT = {
    "handler": "def handler(data, context):\n    return data.read(), context.accept_header\n",
    "a default": "def handler(data, context, log=None):\n    return reply(data, context)\n",
    "any number": "def handler(*given):\n    return reply(*given)\n",
    "a list": "def handler(data, context):\n    return [data.read(), 'text/csv']\n",
    "a pair of names": "def handler(data, context):\n    found = reply(data)\n    return found\n",
    "a decorator": "@timed\ndef handler(request):\n    return request\n",
    "a class": "class Handler:\n    def __call__(self, data, context): ...\nhandler = Handler()\n",
    "in two branches": "if FAST:\n    def handler(data): ...\nelse:\n    def handler(data, context): ...\n",
    "bound anew": "def handler(data, context):\n    data = data.read()\n    return json.loads(data), 'x'\n",
    "asked what it is": "def handler(data, context):\n"
    "    return (data.decode() if hasattr(data, 'decode') else data.read()), 'x'\n",
    "tried": "def handler(data, context):\n    try:\n        text = data.decode()\n"
    "    except AttributeError:\n        text = data.read()\n    return text, 'x'\n",
    "an inner function": "def handler(data, context):\n"
    "    def of(context):\n        return context.name\n    return of(data), 'x'\n",
    "always raises": "def handler(data, context):\n    raise NotImplementedError\n",
    "a star": "from shared import *\n",
    "yields both": "def handler(data, context):\n    yield data.read()\n    yield 'text/csv'\n",
    "yields pieces": "def input_handler(data, context):\n    yield data.read()\n"
    "def output_handler(response, context):\n    return response.content, 'x'\n",
    "an inner generator": "def handler(data, context):\n    def rows():\n        yield 1\n"
    "    return reply(rows()), 'x'\n",
    "rows by column": "def input_handler(data, context):\n"
    "    return json.dumps({'inputs': {'x': [1]}, 'signature_name': 's'})\n"
    "def output_handler(response, context):\n    return response.content, 'x'\n",
    "rows that are added": "def input_handler(data, context):\n    request = {'signature_name': 's'}\n"
    "    request['instances'] = rows(data)\n    return json.dumps(request)\n"
    "def output_handler(response, context):\n    return response.content, 'x'\n",
    "both": PAIR + "def output_handler(response, context):\n"
    "    return response.content, context.accept_header\n",
}
WRONG = {
    "def handler(data): ...\n": "1: handler(data) is called with data and the context; "
    "define handler(data, context)",
    "def handler(self, data, context): ...\n": "1: handler(self, data, context) is called with data and "
    "the context; define handler(data, context)",
    "def handler(data, *, context): ...\n": "1: handler(data, *, context) is called with data and the "
    "context; define handler(data, context)",
    "async def handler(data, context): ...\n": "1: handler is async: the container does not "
    "await it; define it without async",
    "def handler(data, context):\n    log(data)\n": "2: handler returns nothing; "
    "return a body and its content type",
    "def handler(data, context):\n    return json.dumps({})\n": "2: handler returns json.dumps({}); "
    "return a body and its content type",
    "def handler(data, context):\n    return 'a', 'b', 'c'\n": "2: handler returns ('a', 'b', 'c'); "
    "return a body and its content type",
    "def handler(data, context):\n    yield data.read()\n": "2: handler yields, so it returns a generator "
    "instead of a pair; return a body and its content type",
    "def input_handler(data, context):\n    return json.dumps({'rows': [1]})\n"
    "def output_handler(response, context):\n    return response.content, 'x'\n": "2: input_handler returns "
    "json.dumps({'rows': [1]}), which has neither instances nor inputs; "
    'return json.dumps({"instances": rows})',
    "def handler(data, context):\n    return {'a': 1}\n": "2: handler returns {'a': 1}; "
    "return a body and its content type",
    "def handler(data, context):\n    return json.loads(data)['a'], 'x'\n": "2: json.loads(data): data is a "
    "stream, read with data.read(); write json.loads(data.read())",
    "def handler(data, context):\n    return data.decode(), 'x'\n": "2: data.decode: data is a stream, "
    "read with data.read(); use an attribute that it has",
    "def handler(data, context):\n    return 'x', context.content_type\n": "2: context.content_type: the "
    "container's context has no content_type; write request_content_type",
    f"{PAIR}def output_handler(response, context):\n    return response.content\n": "4: output_handler "
    "returns response.content; return a body and its content type",
    f"{PAIR}def output_handler(data, context):\n    return data.read(), 'x'\n": "4: data.read: data is a "
    "requests.Response, with response.content and response.json(); use an attribute that it has",
    f"{PAIR}def output_handler(response): ...\n": "3: output_handler(response) is called with response "
    "and the context; define output_handler(response, context)",
    f"{PAIR}def output_handler(r, c): ...\ndef handler(d, c): ...\n": "1: defines handler, so "
    "input_handler and output_handler are never called; keep either handler or the other two",
    "def model_fn(folder): ...\ndef predict_fn(data, model): ...\n": "1: defines no handler; model_fn, "
    "predict_fn are called only by other SageMaker containers; define handler(data, context), or both "
    "input_handler and output_handler",
}
HOOKS = {
    "def preprocess(body):\n    return {}\n": "1: preprocess(body) is called with body and the context; "
    "define preprocess(body, context)",
    "def preprocess(body, context):\n    ids = body.read()\n    return {'ids': ids}\n": "2: body.read: "
    "body is bytes; use an attribute that it has",
    "def preprocess(body, context):\n    parse(body)\n": "2: preprocess returns nothing; return arrays by "
    "name",
    "def postprocess(tensors): ...\n": "1: postprocess(tensors) is called with tensors and the context; "
    "define postprocess(tensors, context)",
}


def said(text: str, *, hooks: bool = False) -> list[str]:
    findings = find_function_faults(Path("code.py"), ast.parse(text), hooks=hooks)
    return [str(finding).removeprefix("code.py:") for finding in findings]


@pytest.mark.parametrize("name", RIGHT)
def test_what_the_container_can_call_is_no_finding(name: str) -> None:
    assert said(RIGHT[name]) == []


@pytest.mark.parametrize("text", WRONG)
def test_what_fails_at_every_request_is_a_finding(text: str) -> None:
    assert said(text) == [WRONG[text]]


def test_hooks_are_called_with_body_and_context() -> None:
    for text in HOOKS:
        assert said(text, hooks=True) == [HOOKS[text]]
    text = (
        "def preprocess(body, context):\n    return {'x': parse(body, context.method)}\n"
        "def postprocess(tensors, context):\n    return {'y': tensors['y'].tolist()}\n"
    )
    assert said(text, hooks=True) == []
