"""servable_handler/request.py, through Falcon itself."""

import falcon
import falcon.testing
import pytest

from servable_handler.request import RequestError, as_falcon_exception, build_falcon_exception


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


def test_a_refusal_is_json_whatever_the_caller_accepts_and_says_when_to_try_again(
    client: falcon.testing.TestClient,
) -> None:
    for accept in ["application/json", "application/x-npy", "text/xml", "*/*", ""]:
        answer = client.simulate_post("/", headers={"Accept": accept})
        assert (answer.status_code, answer.json) == (429, {"error": 'the "queue" is full'})
    assert client.simulate_post("/").headers["content-type"] == "application/json"
    assert client.simulate_post("/").headers["retry-after"] == "1"


def test_an_answer_keeps_its_bytes_and_a_refusal_its_sentence(
    client: falcon.testing.TestClient,
) -> None:
    answer = client.simulate_post("/", params={"kind": "answer"})
    assert (answer.content, answer.headers["server-timing"]) == (b"\xff\0", "read;dur=1")
    assert str(as_falcon_exception(RequestError(400, "no such tensor"), {})) == "no such tensor"
