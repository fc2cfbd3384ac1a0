"""Paths as NGINX reads and writes them; each of these was asked of a real NGINX 1.22."""

from servable_local.container.nginx.routes import escape_path, normalize_path


def test_a_path_is_read_and_written_as_nginx_does() -> None:
    for sent, read in [
        ("/models//x", "/models/x"),
        ("/models/..", "/"),
        ("/models/%2e%2e", "/"),
        ("/invocations/.", "/invocations/"),
        ("/x/../invocations", "/invocations"),
        ("/%70ing", "/ping"),
        ("/models/a%2Fb/", "/models/a/b/"),
        ("/a/.../b", "/a/.../b"),
    ]:
        assert normalize_path(sent) == read
    for sent in ["/..", "/a/../../b", "/%zz", "/a%", "/%00"]:
        assert normalize_path(sent) is None
    assert escape_path("/models/a b%?#\xe9") == "/models/a%20b%25%3F%23%E9"
