"""A .npy body becomes a PredictRequest, and a PredictResponse a .npy body, without arrays between.

Numbers stand in all of them as the same bytes. What is before them depends on type and shape
alone, as does whether they fit the signature: it is kept from the first request of that form.
"""

from servable_tensors.npy import content_of, header_of
from servable_tensors.predict_answer import places_in
from servable_tensors.seen_forms import SeenForms
from servable_tensors.tensors import BFLOAT16, array_dtype

_MOST_FORMS = 64
_MOST_BYTES = 1_024  # before the numbers

# An answer's new beginning, and from where to where its numbers are.
_ANSWERS: SeenForms[tuple[bytes, int, int]] = SeenForms()


class NpyRelay:
    """For one signature of one model."""

    def __init__(self) -> None:
        self._by_length: dict[int, tuple[bytes, bytes]] = {}

    def request(self, body: bytes) -> bytes | None:
        """The serialized PredictRequest; None for a body of a form that is not known."""
        known = self._by_length.get(len(body))
        if known is None:
            return None
        header, before = known
        if not body.startswith(header):
            return None
        return b"".join((before, memoryview(body)[len(header) :]))

    def learn(self, body: bytes, request: bytes, number: int) -> None:
        """This body was fine and became this request, its tensor of the data type `number`."""
        found = content_of(body)
        if found is None or number == BFLOAT16:
            return
        dtype, start = found
        # A truth value may be any byte there, and is 0 or 1 in a request.
        if dtype.kind not in "iufc" or dtype != array_dtype(number):
            return
        before = request[: len(request) - (len(body) - start)]
        if start + len(before) > _MOST_BYTES:
            return
        if len(self._by_length) >= _MOST_FORMS:
            self._by_length.clear()
        self._by_length[len(body)] = body[:start], before


def answer_in(reply: bytes) -> bytes | None:
    """The .npy of a PredictResponse's output; None where there is not one of plain numbers."""
    known = _ANSWERS.get(reply)
    if known is None:
        places = places_in(reply)
        if places is None or len(places) != 1:
            return None
        one = places[0]
        end = one.start + one.elements * one.dtype.itemsize
        known = header_of(one.dtype, one.shape), one.start, end
        _ANSWERS.keep(reply, [(one.start, end)], known)
    header, start, end = known
    return b"".join((header, memoryview(reply)[start:end]))
