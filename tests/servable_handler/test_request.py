"""What a request accepts, how it is refused through Falcon itself, and what the variables set."""

import falcon
import falcon.testing
import pytest

from servable_handler.prediction import choose_content_type
from servable_handler.request import RequestError, as_falcon_exception, build_falcon_exception
from servable_handler.settings import Settings, read_settings
from servable_tensors.codecs import CSV, JSON, NPY, NPZ, PROTOBUF


@pytest.mark.parametrize(("accept", "form"), [
    ("text/csv", CSV),
    ("application/*, TEXT/CSV", CSV),
    ("application/x-npy;q=0.5, text/csv", CSV),
    ("application/x-npy;q=0.5, text/csv;q=0.4", NPY),
    ("application/x-npy; q=0.5 , text/csv;q=0.500", NPY),
    ("text/csv, application/x-npy", CSV),
    ("application/x-npz;q=0, */*", PROTOBUF),
    ("*/*", PROTOBUF),
    ("*/*;q=0.1, text/csv;q=0.2", CSV),
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
])  # fmt: skip
def test_the_highest_q_among_our_forms_wins(accept: str, form: str) -> None:
    assert choose_content_type(accept, PROTOBUF) == form


class Raising:
    def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
        kind = request.get_param("kind")
        if kind == "answer":
            raise build_falcon_exception(
                200, b"\xff\0", "application/x-npy", {"Server-Timing": "read;dur=1"}
            )
        raise as_falcon_exception(
            RequestError(429, 'the "queue" is full', retry_after_seconds=1), {}
        )


@pytest.fixture
def client() -> falcon.testing.TestClient:
    app = falcon.App()
    app.add_route("/", Raising())
    return falcon.testing.TestClient(app)


def test_an_answer_keeps_its_bytes_and_a_refusal_is_json_whatever_is_accepted(
    client: falcon.testing.TestClient,
) -> None:
    for accept in ["application/json", "application/x-npy", "text/xml", "*/*", ""]:
        answer = client.simulate_post("/", headers={"Accept": accept})
        assert (answer.status_code, answer.json) == (429, {"error": 'the "queue" is full'})
    assert client.simulate_post("/").headers["content-type"] == "application/json"
    assert client.simulate_post("/").headers["retry-after"] == "1"
    answer = client.simulate_post("/", params={"kind": "answer"})
    assert (answer.content, answer.headers["server-timing"]) == (b"\xff\0", "read;dur=1")
    assert str(as_falcon_exception(RequestError(400, "no such tensor"), {})) == "no such tensor"


def test_all_four_are_read_or_refused_with_what_is_allowed() -> None:
    assert read_settings({}) == Settings("auto", None, False, None)
    variables = {
        "SERVABLE_TRANSPORT": "grpc", "SERVABLE_GRPC_FROM_BYTES": "1000",
        "SERVABLE_TIMING_HEADER": "1", "SERVABLE_REQUEST_TIMEOUT_SECONDS": "2",
    }  # fmt: skip
    assert read_settings(variables) == Settings("grpc", 1000, True, 2)
    for name, value, allowed in [
        ("SERVABLE_TRANSPORT", "http", "allowed: auto, rest, grpc"),
        ("SERVABLE_GRPC_FROM_BYTES", "-1", "allowed: a number of bytes"),
        ("SERVABLE_TIMING_HEADER", "yes", "allowed: 0 or 1"),
        ("SERVABLE_REQUEST_TIMEOUT_SECONDS", "0",
         "allowed: an integer number of seconds of at least 1"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=f"{name}={value} is invalid; {allowed}"):
            read_settings({name: value})
