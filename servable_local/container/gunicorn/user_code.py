"""code/inference.py: loaded from its file, once, before Gunicorn forks its workers.

Source: python_service.py in the image's public source,
https://github.com/aws/deep-learning-containers (tensorflow/inference/docker/build_artifacts)
"""

import importlib.util
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests

from servable_local.container.gunicorn.context import Context

Handler = Callable[[Any, Context], Any]


class CodeError(Exception):
    """The archive's code cannot serve. `str()` is a whole sentence."""


class ModelAnswerError(Exception):
    """The model server's refusal, which passes through with its own status."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"the model server answered {status}")
        self.status, self.body = status, body


def load(inference: Path) -> Handler:
    """Raises `CodeError` for code that does not import or has no handler."""
    spec = importlib.util.spec_from_file_location("inference", inference)
    assert spec is not None  # a .py file always has a spec
    assert spec.loader is not None  # and a loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as failure:
        traceback.print_exc()
        raise CodeError(
            f"code/inference.py does not import: {type(failure).__name__}: {failure}; "
            "Gunicorn would not start either"
        ) from None
    if hasattr(module, "handler"):
        handler: Handler = module.handler
        return handler
    if hasattr(module, "input_handler") and hasattr(module, "output_handler"):
        return _around(module.input_handler, module.output_handler)
    raise CodeError(
        "code/inference.py defines no handler; define handler(data, context), "
        "or input_handler(data, context) and output_handler(response, context)"
    )


def pass_on(data: Any, context: Context) -> Any:
    """lib/ or requirements.txt without inference.py: the body goes to the model server as it is."""
    answer = requests.post(context.rest_uri, data=data.read(), timeout=context.timeout)
    if answer.status_code != 200:
        raise ModelAnswerError(answer.status_code, answer.content)
    return answer.content, context.accept_header


def _around(before: Callable[..., Any], after: Callable[..., Any]) -> Handler:
    def handler(data: Any, context: Context) -> Any:
        body = before(data, context)
        return after(requests.post(context.rest_uri, data=body, timeout=context.timeout), context)

    return handler
