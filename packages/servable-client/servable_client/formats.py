"""The choice of a format for arrays, and encoding and decoding of bodies.

The formats are the codecs of servable_tensors/codecs.py that have a name there.
"""

import functools
from typing import TYPE_CHECKING

from servable_client.arrays import Array, Arrays, count_bytes
from servable_client.errors import BadAnswerError, BadInputError
from servable_tensors import UNNAMED, TensorError

if TYPE_CHECKING:
    from servable_tensors.codecs import Codec, RequestedModel

# Protobuf responses name the outputs and their types in the fewest CPU seconds. The container's
# NGINX ignores "json" with a q; it would use a bare one as the response's type.
ANY_ANSWER = "application/x-protobuf, application/x-npz;q=0.9, application/json;q=0.8"
# Below this, JSON costs a model server no more than another format, and people can read it in
# a log or in captured data. Source: the 2 KB rows of "What makes a handler fast", measured.
MOST_JSON_BYTES = 2048


@functools.cache
def load_codecs() -> "dict[str, Codec]":
    """Return the codecs by format name, as in `format=`."""
    # On first use: protobuf alone would double the time of `import servable_client`.
    from servable_tensors.codecs import CODECS

    return {codec.form: codec for codec in CODECS.values() if codec.form}


def find_content_type(form: str) -> str:
    """Return the content type of a format. Raises `BadInputError` for an unknown one."""
    if form not in load_codecs():
        raise BadInputError(
            f"unknown format {form!r}; use one of {', '.join(load_codecs())}, or omit it"
        )
    return load_codecs()[form].content_type


def choose_format(arrays: Arrays, *, typed: bool = True) -> str:
    """Return the name of the format for these arrays.

    Protobuf is for arrays, npy for an unnamed array, JSON for a few values of mixed types. JSON
    is also chosen for a few numbers in lists: [1.5] is float64 in NumPy, and in JSON the type
    that the signature requires.
    """
    kinds = {array.dtype.kind for array in arrays.values()}
    mixed = len(kinds) > 1 or "O" in kinds or not typed
    if UNNAMED in arrays and "O" not in kinds and (typed or not _is_small(arrays)):
        return "npy"
    if UNNAMED in arrays:
        return "json"
    if mixed and "c" not in kinds and "V" not in kinds and _is_small(arrays):
        return "json"
    return "protobuf"


def _is_small(arrays: Arrays) -> bool:
    # First the count, which is known; counting the bytes of a million strings takes time. JSON
    # loses the shape of an empty array.
    values = arrays.values()
    return (
        all(array.size for array in values)
        and sum(array.size for array in values) * 4 <= MOST_JSON_BYTES
        and count_bytes(values) <= MOST_JSON_BYTES
    )


def encode(form: str, arrays: Arrays, choice: "RequestedModel") -> bytes:
    """Return the encoded body. Raises `BadInputError` for values that the format cannot hold."""
    find_content_type(form)  # raises for an unknown format
    try:
        return load_codecs()[form].encode_request(arrays, choice)
    except TensorError as bad:
        raise BadInputError(str(bad)) from None


def decode(content_type: str, body: bytes) -> dict[str, Array]:
    """Return the outputs of a response, by name. Raises `BadAnswerError`."""
    by_type = {codec.content_type: codec for codec in load_codecs().values()}
    codec = by_type.get(content_type.partition(";")[0].strip().lower())
    if codec is None:
        raise BadAnswerError(
            f"the response is {content_type or 'without content type'}; this client reads "
            f"{', '.join(by_type)}; invoke() returns the bytes unchanged"
        )
    try:
        return codec.read_response(body)
    except (TensorError, ValueError) as error:
        raise BadAnswerError(f"the {content_type} response cannot be read: {error}") from None
