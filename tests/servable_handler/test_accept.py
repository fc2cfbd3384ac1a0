import pytest

from servable_handler.prediction import choose_content_type
from servable_tensors.codecs import CSV, JSON, NPY, NPZ, PROTOBUF


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("text/csv", CSV),
        ("TEXT/CSV", CSV),
        ("application/x-npy;q=0.5, text/csv", CSV),
        ("application/x-npy;q=0.5, text/csv;q=0.4", NPY),
        ("application/x-npy; q=0.5 , text/csv;q=0.500", NPY),
        ("text/csv, application/x-npy", CSV),
        ("application/x-npz;q=0, */*", PROTOBUF),
        ("*/*", PROTOBUF),
        ("*/*;q=0.1, text/csv;q=0.2", CSV),
        ("text/csv, */*", CSV),
        ("text/*", CSV),
        ("application/*", PROTOBUF),
        ("application/x-protobuf;q=0.1, */*", JSON),
        ("application/json;version=2", JSON),
        ("image/png, application/x-npz;q=0.1", NPZ),
        ("image/png", PROTOBUF),
        ("", PROTOBUF),
        ("text/csv;q=0", PROTOBUF),
        ("text/csv;q=nan, application/x-npy;q=0.1", NPY),
        ("text/csv;q=7, application/x-npy;q=0.1", NPY),
        (",;,=;q=", PROTOBUF),
    ],
)
def test_the_highest_q_among_our_forms_wins(accept: str, form: str) -> None:
    assert choose_content_type(accept, PROTOBUF) == form
