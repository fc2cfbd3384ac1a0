"""Arrays become bodies and bodies arrays: which form, and the two ways.

| form | content type | inputs | strings |
|---|---|---|---|
| protobuf | application/x-protobuf | named | any bytes |
| npy | application/x-npy | one, unnamed or not | without zeros at their end |
| npz | application/x-npz | named | without zeros at their end |
| json | application/json | named, or one unnamed | any bytes |
"""

import functools
import importlib
from typing import Any, Literal, get_args

from servable_client.arrays import UNNAMED, Arrays, total_bytes
from servable_client.errors import BadAnswerError, BadInputError
from servable_client.selection import Selection

Form = Literal["protobuf", "npy", "npz", "json"]
FORMS: tuple[Form, ...] = get_args(Form)
CONTENT_TYPES: dict[Form, str] = {
    "protobuf": "application/x-protobuf",
    "npy": "application/x-npy",
    "npz": "application/x-npz",
    "json": "application/json",
}
_FORMS = {content_type: form for form, content_type in CONTENT_TYPES.items()}

# Protobuf answers name the outputs and their types in the fewest CPU seconds. "json" with a q
# is passed over by the container's NGINX, which would take a bare one for the answer's type.
ANY_ANSWER = "application/x-protobuf, application/x-npz;q=0.9, application/json;q=0.8"
# Below this, JSON costs a model server no more than another form, and a person can read it in
# a log or in captured data. Source: the 2 KB rows of "What makes a handler fast", measured.
MOST_JSON_BYTES = 2048


def chosen(arrays: Arrays, *, typed: bool = True) -> Form:
    """protobuf for arrays, npy for one without a name, JSON for a few values of mixed types.

    And JSON for a few numbers that come in lists: [1.5] is float64 to NumPy, and in JSON
    whatever the signature wants.
    """
    kinds = {array.dtype.kind for array in arrays.values()}
    mixed = len(kinds) > 1 or "O" in kinds or not typed
    if UNNAMED in arrays and "O" not in kinds and (typed or not _few(arrays)):
        return "npy"
    if UNNAMED in arrays:
        return "json"
    if mixed and "c" not in kinds and "V" not in kinds and _few(arrays):
        return "json"
    return "protobuf"


def _few(arrays: Arrays) -> bool:
    # First the count, which is at hand: the bytes of a million strings are not. And JSON
    # forgets what shape an array had that holds nothing.
    values = arrays.values()
    return (
        all(array.size for array in values)
        and sum(array.size for array in values) * 4 <= MOST_JSON_BYTES
        and total_bytes(values) <= MOST_JSON_BYTES
    )


def encode(form: Form, arrays: Arrays, selection: Selection) -> bytes:
    """The body. Raises `BadInputError` for what the form cannot hold."""
    if form not in FORMS:
        raise BadInputError(
            f"format {form!r}: give one of {', '.join(FORMS)}, or none to have one chosen"
        )
    body: bytes = _module(form).encode(arrays, selection)
    return body


def decode(content_type: str, body: bytes) -> Arrays:
    """The outputs of an answer, by name. Raises `BadAnswerError`."""
    form = _FORMS.get(content_type.partition(";")[0].strip().lower())
    if form is None:
        raise BadAnswerError(
            f"the answer is {content_type or 'of no content type'}; "
            f"this client reads {', '.join(_FORMS)}; invoke() gives the bytes as they are"
        )
    try:
        found: Arrays = _module(form).decode(body)
    except ValueError as error:
        raise BadAnswerError(f"the {content_type} answer cannot be read: {error}") from None
    return found


@functools.cache
def _module(form: Form) -> Any:
    # On first use: protobuf alone would double the time of `import servable_client`.
    return importlib.import_module(f"servable_client.formats.{form}")
