"""Paths as NGINX reads and writes them; each of these was asked of a real NGINX 1.22."""

import pytest

from servable_local.container.nginx.routes import escaped, normalized


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        ("/models//x", "/models/x"),
        ("/models/..", "/"),
        ("/models/%2e%2e", "/"),
        ("/invocations/.", "/invocations/"),
        ("/x/../invocations", "/invocations"),
        ("/%70ing", "/ping"),
        ("/models/a%2Fb/", "/models/a/b/"),
        ("/a/.../b", "/a/.../b"),
    ],
)
def test_a_path_is_decoded_and_without_empty_and_dotted_parts(sent: str, read: str) -> None:
    assert normalized(sent) == read


@pytest.mark.parametrize("sent", ["/..", "/a/../../b", "/%zz", "/a%", "/%00"])
def test_a_path_that_leaves_the_root_or_cannot_be_decoded_is_none(sent: str) -> None:
    assert normalized(sent) is None


def test_what_stands_otherwise_in_a_path_is_escaped_again() -> None:
    assert escaped("/models/a b%?#\xe9") == "/models/a%20b%25%3F%23%E9"
