"""code/inference.py: loaded from its file, once, before Gunicorn forks its workers.

Source: python_service.py in the image's public source, see image_code.py
"""

import importlib.util
import platform
import re
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import falcon
import requests

from servable_local.container.gunicorn.context import Context
from servable_local.container.http_messages import JSON
from servable_local.container.image_code import ImageCode
from servable_local.container.image_imports import python_of_the_image

Handler = Callable[[Any, Context], Any]
_PASSED_ON = (JSON, "application/jsonlines", "application/jsons", "text/csv")


class CodeError(Exception):
    """The archive's code cannot serve. `str()` is a whole sentence."""


class UnsupportedTypeError(Exception):
    """A content type that is not passed on without code: 415."""


def load(inference: Path, image: ImageCode, problems: Sequence[str] = ()) -> Handler:
    """Raises `CodeError` for code that does not import or has no handler.

    `problems`: what is known of packages that this computer cannot import, said where an import fails.
    """
    spec = importlib.util.spec_from_file_location("inference", inference)
    assert spec is not None  # a .py file always has a spec
    assert spec.loader is not None  # and a loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as failure:
        traceback.print_exc()
        raise CodeError(_why(failure, inference.parent, problems)) from None
    if hasattr(module, "handler"):
        handler: Handler = module.handler
        return handler
    if hasattr(module, "input_handler") and hasattr(module, "output_handler"):
        before, after = module.input_handler, module.output_handler
        return lambda data, context: after(_answer(before(data, context), context, image), context)
    raise CodeError(
        "code/inference.py defines no handler; define handler(data, context), "
        "or input_handler(data, context) and output_handler(response, context)"
    )


def _why(failure: BaseException, code: Path, problems: Sequence[str]) -> str:
    places = [
        f"code/{Path(frame.filename).relative_to(code).as_posix()}, line {frame.lineno}; "
        for frame in traceback.extract_tb(failure.__traceback__)
        if Path(frame.filename).is_relative_to(code)
        and not Path(frame.filename).is_relative_to(code / "lib")
    ]
    # A SyntaxError names file and line itself.
    place = "" if isinstance(failure, SyntaxError) else "".join(places[-1:])
    # A module that was not found may be compiled for another Python.
    match = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(failure))
    module = f"{match[2]}.{match[1]}" if match else str(getattr(failure, "name", None))
    if re.fullmatch(r"\w[\w.]*", module):
        for file in sorted(code.glob(f"**/{module.replace('.', '/')}.*.so"))[:1]:
            place += f"module {module}: code/{file.relative_to(code).as_posix()}; "
    sentence = (
        f"code/inference.py does not import: {type(failure).__name__}: {failure} "
        f"({place}Python {platform.python_version()} of this computer, "
        f"where the image has {python_of_the_image()})"
    )
    return "\n".join([sentence, *(problems if isinstance(failure, ImportError) else ())])


def pass_on(image: ImageCode) -> Handler:
    """Handler without inference.py, as with lib/ alone: the text goes to the model server unchanged."""

    def handler(data: Any, context: Context) -> Any:
        media_type = context.request_content_type.split(";")[0].strip().lower()
        if image.rewritten and media_type and media_type not in _PASSED_ON:
            raise UnsupportedTypeError(f"Unsupported Media Type: {media_type}")
        return _answer(data.read().decode(), context, image).content, context.accept_header

    return handler


def _answer(body: Any, context: Context, image: ImageCode) -> requests.Response:
    """The model server's answer. Since 2.20 one that is no success is an error of the same status."""
    timeout = context.timeout if image.rewritten else None
    answer = requests.post(context.rest_uri, data=body, timeout=timeout)
    if image.rewritten and answer.status_code != 200:
        status = falcon.code_to_http_status(answer.status_code)
        raise falcon.HTTPError(status, description=answer.content.decode(errors="replace"))
    return answer
