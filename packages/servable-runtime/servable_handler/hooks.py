"""The user's own code around the model: transforms.py next to inference.py.

    preprocess(body: bytes, context) -> {input name: array}
    postprocess(tensors: {output name: array}, context) -> body, or (body, content type)

Either may be left out. A body is bytes, str, or what JSON can hold.
"""

import hashlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from servable_handler.request import JSON, RequestError
from servable_tensors import TensorError, wire
from servable_tensors.signature import Signature
from servable_tensors.tensors import (
    STRING,
    Array,
    Arrays,
    InexactCastError,
    cast_exactly,
    find_array_dtype,
)

Preprocess = Callable[[bytes, Any], Mapping[str, Any]]
Postprocess = Callable[[Arrays, Any], Any]


class InputError(ValueError):
    """The error that a hook raises for a caller's mistake. The caller gets a 400 with the message."""


@dataclass(frozen=True)
class Hooks:
    """The hooks of a model; None for a hook that is not defined."""

    preprocess: Preprocess | None = None
    postprocess: Postprocess | None = None

    def run_preprocess(self, body: bytes, context: Any, signature: Signature) -> dict[str, Array]:
        """Return the arrays of preprocess for the body, converted to the signature's types.

        Raises `RequestError`: 400 for a value that its type cannot hold, which is usually the
        caller's mistake; 500 for a mistake of the hook that does not depend on the request.
        """
        assert self.preprocess is not None  # callers check
        raw = _call_hook("preprocess", self.preprocess, body, context)
        if not isinstance(raw, Mapping):
            kind = type(raw).__name__
            problem = f"the hook preprocess returned {kind}; return a dict of arrays by input name"
            raise RequestError(500, problem)
        try:
            arrays = {
                str(name): _fit_to_signature(str(name), item, signature)
                for name, item in raw.items()
            }
            signature.check(arrays)
        except (RequestError, TensorError) as error:
            status = error.status if isinstance(error, _UnfitValueError) else 500
            raise RequestError(status, f"the hook preprocess: {error}") from None
        except (ValueError, TypeError) as error:
            raise RequestError(
                500,
                f"the hook preprocess returned values that aren't arrays ({type(error).__name__})",
            ) from None
        return arrays

    def run_postprocess(self, arrays: Arrays, context: Any) -> tuple[bytes, str]:
        """Return the body and content type of postprocess for the outputs. Raises `RequestError`."""
        assert self.postprocess is not None  # callers check
        returned = _call_hook("postprocess", self.postprocess, arrays, context)
        content_type = None
        if isinstance(returned, tuple) and len(returned) == 2:
            returned, content_type = returned
        if isinstance(returned, bytes):
            return returned, content_type or "application/octet-stream"
        try:
            if isinstance(returned, str):
                return returned.encode(), content_type or "text/plain; charset=utf-8"
            return json.dumps(returned).encode(), content_type or JSON
        except UnicodeEncodeError:
            problem = "the hook postprocess returned a str with a lone surrogate, which isn't UTF-8"
            raise RequestError(500, problem) from None
        except (TypeError, ValueError, RecursionError) as error:
            # NumPy's own numbers and arrays are not JSON values, except float64. A TypeError's sentence
            # names the type and quotes nothing of the value.
            reason = str(error) if type(error) is TypeError else type(error).__name__
            raise RequestError(
                500,
                f"the hook postprocess returned {type(returned).__name__}, which is not JSON "
                f"({reason}); return bytes, str, or JSON values, and convert NumPy arrays and "
                "numbers with .tolist(), such as {'score': scores[0].tolist()}",
            ) from None


def load_hooks(folder: Path) -> Hooks:
    """Load the hooks of transforms.py in `folder`, if there is one, under a name unique to its path.

    In multi-model mode every model has one in the same process. Raises what importing it raises,
    and ImportError if it has neither hook: the container then does not start.
    """
    file = folder / "transforms.py"
    if not file.is_file():
        return Hooks()
    name = f"transforms_{hashlib.sha256(os.fsencode(file)).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None  # a .py file always has a spec
    assert spec.loader is not None  # and a loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses and pickle look for it
    spec.loader.exec_module(module)
    hooks = Hooks(getattr(module, "preprocess", None), getattr(module, "postprocess", None))
    if hooks == Hooks():
        raise ImportError("transforms.py defines neither preprocess nor postprocess")
    return hooks


def _call_hook(name: str, hook: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return hook(*arguments)
    except InputError as error:
        raise RequestError(400, str(error)) from None
    except RequestError:
        raise
    except Exception as error:
        # Neither the message nor the traceback is logged, because they may quote the request.
        *_, (frame, line) = traceback.walk_tb(error.__traceback__)
        place = f"in {frame.f_code.co_filename.rpartition('/')[2]}, line {line}"
        problem = f"the hook {name} failed ({type(error).__name__} {place})"
        raise RequestError(500, problem) from None


class _UnfitValueError(RequestError):
    """The error for a value that the signature's type cannot hold."""


def _fit_to_signature(name: str, value: Any, signature: Signature) -> Array:
    if isinstance(value, np.ma.MaskedArray):
        problem = f"{name}: got a masked array; fill the masked values with array.filled(…)"
        raise RequestError(500, problem)
    spec = signature.inputs.get(name)
    if spec is not None and spec.dtype == STRING and not isinstance(value, np.ndarray | np.generic):
        # NumPy's own strings lose zeros at their end, and turn numbers among them into strings.
        array = np.asarray(value, object)
    else:
        array = np.asarray(value)
    if spec is None:
        return array
    if spec.dtype == STRING:
        for text in array.ravel().tolist() if array.dtype == object else ():
            if not isinstance(text, bytes | str):
                problem = f"{name}: contains {type(text).__name__}; use bytes or str for strings"
                raise RequestError(500, problem)
        return array
    try:
        # Beyond 64 bits NumPy keeps Python's own integers.
        for value in array.ravel().tolist() if array.dtype == object else ():
            if type(value) is int:
                dtype = wire.find_dtype_name(spec.dtype)
                raise InexactCastError(f"holds {value!r:.40}, which {dtype} can't represent")
        # float64 for float32 is what NumPy's functions return; a float for an int is a mistake.
        return cast_exactly(array, find_array_dtype(spec.dtype))
    except InexactCastError as error:
        raise _UnfitValueError(400, f"{name}: {error}; the signature wants {spec}") from None
