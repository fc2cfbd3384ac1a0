"""What NGINX makes of paths, bodies and answers; each path was asked of a real NGINX 1.22."""

import json

from servable_local.container.http_messages import HttpResponse
from servable_local.container.image_code import find_image_code
from servable_local.container.nginx.routes import (
    apply_accept_header,
    convert_body,
    convert_csv_up_to_2_19,
    escape_path,
    normalize_path,
)

NEW, OLD = find_image_code("2.20"), find_image_code("2.19")


def test_csv_becomes_instances_as_in_the_version() -> None:
    cases: list[tuple[str, object]] = [
        ("1.5,2\n3,4\n", [[1.5, 2], [3, 4]]),
        ("1\n2", [1, 2]),
        ("word", ["word"]),
        ('"a,b","c"', [["a,b", "c"]]),
        ("1,2\n\n3,4", [[1, 2], [3, 4]]),
    ]
    for sent, instances in cases:
        for image in (NEW, OLD):
            body = convert_body("text/csv", sent.encode(), image)
            assert isinstance(body, bytes)
            assert json.loads(body) == {"instances": instances}
    assert json.loads(convert_csv_up_to_2_19(b"a,b,c")) == {"instances": [["a", "b,c"]]}


def test_a_body_that_was_not_sent_or_is_of_an_unknown_type_is_answered_as_by_the_version() -> None:
    assert convert_body("application/json", None, NEW) == b'{"instances":[undefined]}'
    for kind, body, image, status, text in [
        ("text/csv", None, NEW, 500, ""),
        ('A/"B', b"", NEW, 415, '{"error":"Unsupported Media Type: a/\\"b"}'),
        ('A/"B', b"", OLD, 415, '{"error": "Unsupported Media Type: A/"B"}'),
    ]:
        answer = convert_body(kind, body, image)
        assert isinstance(answer, HttpResponse)
        assert (answer.status, text in answer.body.decode()) == (status, True)


def test_which_type_an_accepted_answer_has() -> None:
    for image, accept, kind in [
        (NEW, "text/csv, application/jsonlines", "application/json"),
        (OLD, "application/jsonlines,text/csv", "application/jsonlines"),
        (NEW, "application/json;q=1", "kept"),
    ]:
        answer = HttpResponse(200, b"a\nb", "kept")
        assert apply_accept_header(accept, answer, image).content_type == kind


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
