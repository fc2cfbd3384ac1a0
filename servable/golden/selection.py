"""A small set of captured requests that covers what many of them hold.

Covered are: every content type, form, signature, set of inputs, shape without its rows and type of each
input; the fewest and the most rows, the largest body, and of each input the least and the greatest number
and the shortest and the longest string, NaN and infinities. One pass, and memory for the candidates alone.
"""

import contextlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from servable.answers.outputs import outputs_of
from servable.captured.files import CapturedRequest
from servable_tensors import wire
from servable_tensors.capture_record import media_type
from servable_tensors.codecs import CODECS, JSON, PROTOBUF
from servable_tensors.tensors import Array

# Requests of clients that vary without end (names, shapes) are not all of interest.
MOST_KINDS = 200
_MOST_INPUTS = 50
# Keys of the two forms of TensorFlow Serving's JSON, and those of their answers.
_FORMS = {"instances": "predictions", "inputs": "outputs"}

Facet = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    value: float
    """The extreme, the smaller the better; for kinds the body's size."""
    request: CapturedRequest


class GoldenSelection:
    """`add` every request, then `chosen` gives the set."""

    def __init__(self) -> None:
        self._candidates: dict[Facet, _Candidate] = {}
        self._facets: dict[str, set[Facet]] = {}

    def add(self, request: CapturedRequest) -> None:
        """Take a request into account. Raises nothing: a body of any form has facets."""
        kinds, extremes = facets_of(request)
        for facet in kinds:
            if facet in self._candidates or len(self._candidates) < MOST_KINDS:
                self._offer(facet, float(len(request.body)), request)
        for facet, value in extremes.items():
            self._offer(facet, value, request)

    def _offer(self, facet: Facet, value: float, request: CapturedRequest) -> None:
        best = self._candidates.get(facet)
        if best is None or value < best.value:
            self._candidates[facet] = _Candidate(value, request)

    def chosen(self, most: int) -> list[tuple[CapturedRequest, list[Facet]]]:
        """At most `most` requests, those first that cover most, each with what it adds."""
        several = {best.request.event_id: best.request for best in self._candidates.values()}
        covers = {event: set(self._covered(request)) for event, request in several.items()}
        rest = set(self._candidates)
        selected: list[tuple[CapturedRequest, list[Facet]]] = []
        while rest and len(selected) < most:
            # The smaller body first where several cover as much.
            event = min(
                covers, key=lambda name: (-len(covers[name] & rest), len(several[name].body), name)
            )
            added = sorted(covers[event] & rest)
            rest -= covers[event]
            selected.append((several[event], added))
        return selected

    def _covered(self, request: CapturedRequest) -> Iterator[Facet]:
        kinds, extremes = facets_of(request)
        yield from (facet for facet in kinds if facet in self._candidates)
        for facet, value in extremes.items():
            if value <= self._candidates[facet].value:
                yield facet


def facets_of(request: CapturedRequest) -> tuple[set[Facet], dict[Facet, float]]:
    """Return a request's facets: its kinds; its extremes, with a number, smaller if more extreme."""
    media = media_type(request.content_type)
    kinds: set[Facet] = {("content type", media)}
    form, signature, inputs, rows = _read(request, media)
    kinds |= {("form", media, form), ("signature", signature), ("inputs", *sorted(inputs))}
    extremes: dict[Facet, float] = {
        ("body", "largest"): -float(len(request.body)),
        ("rows", "fewest"): float(rows),
        ("rows", "most"): -float(rows),
    }
    for name, array in list(inputs.items())[:_MOST_INPUTS]:
        rest = array.shape[1:] if array.ndim and len(array) == rows else array.shape
        kinds.add(("shape", name, str(list(rest)), array.dtype.kind))
        for facet, value in _extremes(name, array):
            if math.isinf(value):
                kinds.add(facet)
            else:
                extremes[facet] = value
    return kinds, extremes


def _extremes(name: str, array: Array) -> Iterator[tuple[Facet, float]]:
    if not array.size:
        yield (name, "empty"), math.inf
    elif array.dtype.kind == "O":
        lengths = [len(value) for value in array.ravel().tolist()]
        yield (name, "shortest"), float(min(lengths))
        yield (name, "longest"), -float(max(lengths))
    elif array.dtype.kind in "fiu":
        finite = array[np.isfinite(array)]
        if finite.size:
            yield (name, "least"), float(finite.min())
            yield (name, "greatest"), -float(finite.max())
        if np.isnan(array).any():
            yield (name, "NaN"), math.inf
        if np.isinf(array).any():
            yield (name, "infinite"), math.inf


def _read(request: CapturedRequest, media: str) -> tuple[str, str, dict[str, Array], int]:
    """(form, signature, inputs, rows)"""
    body, form, signature = request.body, "", ""
    if media == PROTOBUF:
        try:
            inputs = CODECS[PROTOBUF].read_inputs(body)
            signature = wire.PredictRequest.FromString(body).model_spec.signature_name
        except Exception:  # protobuf's have no common class, and a body of any form has facets
            inputs = {}
        sizes = {array.shape[:1] for array in inputs.values()}
        ((rows, *_),) = sizes if len(sizes) == 1 and () not in sizes else ((1,),)
        return form, signature, inputs, rows
    if media == JSON:
        body, form, signature = _as_answer(body)
    outputs = outputs_of(body, request.content_type)
    return form, signature, dict(outputs.arrays), outputs.rows


def _as_answer(body: bytes) -> tuple[bytes, str, str]:
    """TensorFlow Serving's JSON as that of an answer, its form, and the signature that it names."""
    with contextlib.suppress(ValueError, RecursionError):
        parsed = json.loads(body)
        form = next((form for form in _FORMS if isinstance(parsed, dict) and form in parsed), "")
        if form:
            answer = json.dumps({_FORMS[form]: parsed[form]}).encode()
            return answer, form, str(parsed.get("signature_name", ""))
    return body, "", ""
