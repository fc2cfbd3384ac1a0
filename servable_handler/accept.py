"""Which form of answer the Accept header asks for.

Source: RFC 9110, sections 12.4.2 and 12.5.1
"""

import functools
import re

JSON = "application/json"
JSON_LINES = "application/jsonlines"
CSV = "text/csv"
NPY = "application/x-npy"
NPZ = "application/x-npz"
PROTOBUF = "application/x-protobuf"
FORMS = (JSON, JSON_LINES, CSV, NPY, NPZ, PROTOBUF)

_WEIGHT = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")


@functools.lru_cache(maxsize=256)
def chosen(accept: str, own: str) -> str:
    """One of `FORMS`; `own` is the form that goes with the request's body.

    Each form has the q of the range that names it most closely. The highest q wins; of
    equals the one named more closely, then what stands first in the header, then `own`. A
    header that allows none of our forms is passed over, as the container does without code.
    """
    ranges = [_parsed(item) for item in accept.lower().split(",")]
    best: tuple[float, int, int, bool] | None = None
    found = own
    for form in FORMS:
        matches = [
            (closeness, -position, weight)
            for position, (name, weight) in enumerate(ranges)
            if (closeness := _closeness(name, form))
        ]
        if not matches:
            continue
        closeness, position, weight = max(matches)
        rank = (weight, closeness, position, form == own)
        if weight > 0 and (best is None or rank > best):
            best, found = rank, form
    return found


def media_type(header: str) -> str:
    """A header's type without its parameters, in lower case."""
    return header.partition(";")[0].strip().lower()


def _parsed(item: str) -> tuple[str, float]:
    name, *parameters = (part.strip() for part in item.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            # Not a number of the header's grammar: as if the range were not there.
            return (name, float(value.strip())) if _WEIGHT.fullmatch(value.strip()) else ("", 0.0)
    return name, 1.0


def _closeness(name: str, form: str) -> int:
    if name == form:
        return 3
    if name == f"{form.partition('/')[0]}/*":
        return 2
    return 1 if name == "*/*" else 0
