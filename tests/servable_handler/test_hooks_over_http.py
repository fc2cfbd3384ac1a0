"""A page of HTML in, several named outputs out: hooks in an archive, through the endpoint."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from servable_local.container.launch import EndpointProcess, launch
from tests.servable_handler.endpoints import ECHOES, packed, post

TRANSFORMS = b"""
import re

import numpy as np

from servable_handler.hooks import InputError


def preprocess(body, context):
    if b"<html" not in body:
        raise InputError("send a page of HTML")
    links = body.count(b"<a ")
    words = len(re.sub(rb"<[^>]*>", b" ", body).split())
    if words == 13:
        raise RuntimeError("the page said: " + body.decode())
    return {"x": np.array([links, words])}


def postprocess(tensors, context):
    links, words = tensors["x"].tolist()
    return {"links": links, "words": words, "is_list_of_links": links * 3 > words}
"""
PAGE = b"<html><body>Read <a href=1>this</a> and <a href=2>that</a></body></html>"

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EndpointProcess]:
    folder = tmp_path_factory.mktemp("hooks")
    archive: Path = packed(
        folder / "model.tar.gz",
        {"floats": ECHOES / "floats"},
        files={"code/transforms.py": TRANSFORMS},
    )
    with launch(archive, {}) as process:
        yield process


def test_a_page_is_answered_refused_or_fails_without_a_quote(endpoint: EndpointProcess) -> None:
    answer = post(endpoint.url, PAGE, "text/html")
    assert answer.json() == {"links": 2.0, "words": 4.0, "is_list_of_links": True}
    answer = post(endpoint.url, b"plain", "text/html")
    assert (answer.status_code, answer.json()) == (400, {"error": "send a page of HTML"})

    answer = post(endpoint.url, b"<html>" + b"secret " * 13, "text/html")
    assert (answer.status_code, "secret" in answer.text) == (500, False)
    assert "the hook preprocess failed (RuntimeError in transforms.py, line 15)" in answer.text
