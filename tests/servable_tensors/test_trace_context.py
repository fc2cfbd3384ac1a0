"""The trace context and the inference id among the custom attributes: written, read, malformed."""

import pytest

from servable_tensors.trace_context import (
    MOST_ATTRIBUTES,
    valid_traceparent,
    with_trace,
    without_trace,
)

# The example of https://www.w3.org/TR/trace-context/#examples-of-http-traceparent-headers (2026-11-22)
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
MODEL = "tfs-model-name=a"
MALFORMED = [
    "",
    PARENT[:-1],
    PARENT.upper(),
    f"{PARENT}-more",
    f"cc{PARENT[2:]}more",
    f"ff{PARENT[2:]}",
    f"00-{'0' * 32}{PARENT[35:]}",
    f"{PARENT[:36]}{'0' * 16}-01",
    f"{PARENT}\n",
    f"cc{PARENT[2:]}-{'x' * MOST_ATTRIBUTES}",
    "tfs-model-name=b",
    '"}\r\n{"event": "forged"}',
    "\u0660" * 55,
]
NO_ID = ["", "a b", "a,b", "a=b", "x" * 65, "é", '"', "a\n"]


def test_both_are_among_the_custom_attributes() -> None:
    found = with_trace(MODEL, PARENT, "order-42")
    assert found == f"{MODEL},traceparent={PARENT},inference-id=order-42"


def test_without_a_trace_the_custom_attributes_stay_as_they_are() -> None:
    assert with_trace(MODEL, None, None) == MODEL


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_traceparent_is_not_sent(text: str) -> None:
    assert with_trace(MODEL, text, None) == MODEL


@pytest.mark.parametrize("text", NO_ID)
def test_an_inference_id_that_is_no_attribute_is_not_sent_as_one(text: str) -> None:
    assert with_trace(MODEL, None, text) == MODEL


@pytest.mark.parametrize(("most", "sent"), [(0, True), (1, False)])
def test_what_has_no_room_in_1024_characters_is_left_out(most: int, sent: bool) -> None:
    own = "x" * (MOST_ATTRIBUTES - len(f",traceparent={PARENT}") + most)
    assert (with_trace(own, PARENT, None) != own) is sent


def test_what_was_written_is_read() -> None:
    found = without_trace(with_trace(MODEL, PARENT, "order-42"))
    assert found == (MODEL, {"traceparent": PARENT, "inference_id": "order-42"})


@pytest.mark.parametrize("text", [one for one in MALFORMED if "," not in one])
def test_a_malformed_traceparent_is_neither_read_nor_an_attribute(text: str) -> None:
    assert without_trace(f"traceparent={text},{MODEL}") == (MODEL, {})


@pytest.mark.parametrize("text", [one for one in NO_ID if "," not in one])
def test_a_malformed_inference_id_is_neither_read_nor_an_attribute(text: str) -> None:
    assert without_trace(f"{MODEL},inference-id={text}")[1].get("inference_id") is None


def test_the_first_of_several_is_read() -> None:
    later = PARENT.replace("01", "00")
    assert without_trace(f"traceparent={PARENT},traceparent={later}")[1]["traceparent"] == PARENT


def test_a_later_version_is_read_as_version_00() -> None:
    assert valid_traceparent(f"cc{PARENT[2:]}-what.comes") == PARENT


@pytest.mark.parametrize("text", ["", MODEL, "tfs-signature-name=x,own=1"])
def test_other_custom_attributes_are_untouched(text: str) -> None:
    assert without_trace(text) == (text, {})
