"""The trace context and the inference id among the custom attributes: written, read, malformed."""

from servable_tensors.trace_context import (
    MOST_ATTRIBUTES,
    add_trace,
    normalize_traceparent,
    split_trace,
)

# The example of https://www.w3.org/TR/trace-context/#examples-of-http-traceparent-headers (2026-11-22)
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
MODEL = "tfs-model-name=a"
MALFORMED = [
    "", PARENT[:-1], PARENT.upper(), f"{PARENT}-more", f"cc{PARENT[2:]}more", f"ff{PARENT[2:]}",
    f"00-{'0' * 32}{PARENT[35:]}", f"{PARENT[:36]}{'0' * 16}-01", f"{PARENT}\n",
    f"cc{PARENT[2:]}-{'x' * MOST_ATTRIBUTES}", "tfs-model-name=b", '"}\r\n{"event": "forged"}', "\u0660" * 55,
]  # fmt: skip
NO_ID = ["", "a b", "a,b", "a=b", "x" * 65, "é", '"', "a\n"]


def test_the_trace_is_written_unless_it_is_malformed_or_has_no_room() -> None:
    found = add_trace(MODEL, PARENT, "order-42")
    assert found == f"{MODEL},traceparent={PARENT},inference-id=order-42"
    assert add_trace(MODEL, None, None) == MODEL
    for text in MALFORMED:
        assert add_trace(MODEL, text, None) == MODEL
    for text in NO_ID:
        assert add_trace(MODEL, None, text) == MODEL
    for most, sent in [(0, True), (1, False)]:
        own = "x" * (MOST_ATTRIBUTES - len(f",traceparent={PARENT}") + most)
        assert (add_trace(own, PARENT, None) != own) is sent


def test_what_was_written_is_read_and_what_is_malformed_is_not() -> None:
    found = split_trace(add_trace(MODEL, PARENT, "order-42"))
    assert found == (MODEL, {"traceparent": PARENT, "inference_id": "order-42"})
    later = PARENT.replace("01", "00")
    assert split_trace(f"traceparent={PARENT},traceparent={later}")[1]["traceparent"] == PARENT
    assert normalize_traceparent(f"cc{PARENT[2:]}-what.comes") == PARENT
    for text in [one for one in MALFORMED if "," not in one]:
        assert split_trace(f"traceparent={text},{MODEL}") == (MODEL, {})
    for text in [one for one in NO_ID if "," not in one]:
        assert split_trace(f"{MODEL},inference-id={text}")[1].get("inference_id") is None
    for text in ["", MODEL, "tfs-signature-name=x,own=1"]:
        assert split_trace(text) == (text, {})
