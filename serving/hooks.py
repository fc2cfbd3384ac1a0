"""The user's own code around the model: transforms.py beside inference.py.

    preprocess(body: bytes, context) -> {input name: array}
    postprocess(tensors: {output name: array}, context) -> body, or (body, content type)

Either may be left out. A body is bytes, str, or what JSON can hold.
"""

import importlib
import importlib.util
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from serving.refusal import JSON, Refusal
from serving.signature import Signature
from serving.tensors import Array, Arrays, array_dtype

LOG = logging.getLogger("servable")
MODULE = "transforms"
Preprocess = Callable[[bytes, Any], Mapping[str, Any]]
Postprocess = Callable[[Arrays, Any], Any]


class InputError(ValueError):
    """A hook raises it for what the caller did wrong: a 400 with this message."""


@dataclass(frozen=True)
class Hooks:
    """None stands for a hook that is not there."""

    preprocess: Preprocess | None = None
    postprocess: Postprocess | None = None

    def arrays(self, body: bytes, context: Any, signature: Signature) -> dict[str, Array]:
        """What preprocess makes of the body, as the signature's types. Raises `Refusal`."""
        assert self.preprocess is not None  # asked only where there is one
        made = _called("preprocess", self.preprocess, body, context)
        if not isinstance(made, Mapping):
            kind = type(made).__name__
            raise Refusal(500, f"the hook preprocess returned {kind}; it returns arrays by name")
        try:
            arrays = {str(name): _fitted(str(name), one, signature) for name, one in made.items()}
            signature.check(arrays)
        except Refusal as refusal:
            raise Refusal(500, f"the hook preprocess: {refusal.message}") from None
        except (ValueError, TypeError) as error:
            raise Refusal(500, f"the hook preprocess made no arrays ({_kind(error)})") from None
        return arrays

    def body(self, arrays: Arrays, context: Any) -> tuple[bytes, str]:
        """Body and content type that postprocess makes of the outputs. Raises `Refusal`."""
        assert self.postprocess is not None  # asked only where there is one
        made = _called("postprocess", self.postprocess, arrays, context)
        content_type = None
        if isinstance(made, tuple) and len(made) == 2:
            made, content_type = made
        if isinstance(made, bytes):
            return made, content_type or "application/octet-stream"
        if isinstance(made, str):
            return made.encode(), content_type or "text/plain; charset=utf-8"
        try:
            return json.dumps(made).encode(), content_type or JSON
        except (TypeError, ValueError):
            kind = type(made).__name__
            raise Refusal(
                500, f"the hook postprocess returned {kind}; it returns bytes, str or JSON values"
            ) from None


def load_hooks() -> Hooks:
    """The hooks of the module `transforms`, where there is one on the path.

    Raises what importing it raises, and ImportError when it has neither hook: the container
    then does not start, which beats an endpoint that leaves out a step.
    """
    if importlib.util.find_spec(MODULE) is None:
        return Hooks()
    module = importlib.import_module(MODULE)
    hooks = Hooks(getattr(module, "preprocess", None), getattr(module, "postprocess", None))
    if hooks == Hooks():
        raise ImportError(f"{MODULE}.py defines neither preprocess nor postprocess")
    return hooks


def _called(name: str, hook: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return hook(*arguments)
    except InputError as error:
        raise Refusal(400, str(error)) from None
    except Refusal:
        raise
    except Exception as error:
        # Neither message nor traceback: they may quote the request.
        raise Refusal(500, f"the hook {name} failed ({_kind(error)}{_place(error)})") from None


def _fitted(name: str, made: Any, signature: Signature) -> Array:
    array = np.asarray(made)
    spec = signature.inputs.get(name)
    if spec is None or array.dtype.kind in "OSU":
        return array
    wanted = array_dtype(spec.dtype)
    # float64 for float32 is what NumPy's functions return; a float for an int is a mistake.
    if wanted.kind != "O" and np.can_cast(array.dtype, wanted, casting="same_kind"):
        return array.astype(wanted, copy=False)
    return array


def _kind(error: BaseException) -> str:
    return type(error).__name__


def _place(error: BaseException) -> str:
    """Where in the user's code it happened, without quoting anything."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return ""
    return f" in {trace.tb_frame.f_code.co_filename.rpartition('/')[2]}, line {trace.tb_lineno}"
