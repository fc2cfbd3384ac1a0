"""What stands before the services: accounts, and failures that are told and not retried."""

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ClientError

from servable_local.aws.contents import ENVIRON, IN_MEMORY_BYTES, ObjectContent
from servable_local.aws.errors import AccessError
from servable_local.aws.request_router import RequestRouter, check_origin
from servable_local.aws.signatures import LARGEST_UNSTATED_BODY_BYTES, AccessKeys, Verifier
from servable_local.aws.signed_request import ReceivedRequest
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.signing import ACCOUNT, HOST, SECRET, Sent, Unsigned

JSON = Unsigned("logs", "POST", "/", {"Content-Type": "application/x-amz-json-1.1"}, b"{}")


PORT = int(HOST.partition(":")[2])
Application = Callable[..., Iterable[bytes]]


class Answer(NamedTuple):
    status: str
    headers: dict[str, str]
    body: bytes
    environ: dict[str, Any]


def answered(
    sent: Sent, tmp_path: Any, application: Application | None = None, **environ: Any
) -> Answer:
    """A request through the router alone, before `application` in the services' place."""
    seen: dict[str, Any] = {}
    started: list[Any] = []

    def services(given: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        seen.update(given)
        of_pages = [("Access-Control-Allow-Origin", "*"), ("access-control-expose-headers", "b")]
        start_response("200 OK", [*of_pages, ("ETag", "a")])
        return [b"answer"]

    controls: Any = None
    verifier = Verifier(AccessKeys(SECRET))
    router = RequestRouter(application or services, controls, verifier, PORT, tmp_path)
    request = sent.request
    given = {
        "REQUEST_METHOD": request.method,
        "RAW_URI": request.target,
        "PATH_INFO": request.path,
        "CONTENT_TYPE": request.find_header("content-type") or "",
        "CONTENT_LENGTH": str(len(sent.body)),
        "servable.headers": request.headers,
        "wsgi.input": io.BytesIO(sent.body),
    }
    body = router(given | environ, lambda status, headers, *_: started.append((status, headers)))
    status, headers = started[-1]
    return Answer(status, dict(headers), b"".join(body), seen)


def failing(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    raise KeyError("<absent>")


def test_an_account_is_empty_and_what_is_not_emulated_is_named(account: Account) -> None:
    assert account.client("sts").get_caller_identity()["Account"] == account.number
    assert account.client("sagemaker").list_models()["Models"] == []

    with pytest.raises(ClientError, match="NotImplemented.*detect_stack_drift") as caught:
        account.client("cloudformation").detect_stack_drift(StackName="stack")
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501


def test_a_failure_of_a_service_is_a_501_that_names_the_operation(tmp_path: Any) -> None:
    answer = answered(JSON.in_header(), tmp_path, failing, HTTP_X_AMZ_TARGET="Logs.PutThing")
    message = "the local AWS failed on Logs.PutThing: KeyError: '<absent>'"
    assert answer.status == "501 Not Implemented"
    assert json.loads(answer.body) == {"__type": "NotImplemented", "message": message}

    answer = answered(Unsigned().in_header(), tmp_path, failing)
    assert (answer.status, answer.headers) == ("501 Not Implemented", {"Content-Type": "text/xml"})
    assert b"failed on /bucket/key: KeyError: '&lt;absent&gt;'" in answer.body


def test_a_request_has_its_account_and_length_and_its_answer_nothing_for_pages(
    tmp_path: Any,
) -> None:
    assert answered(Unsigned().in_header(), tmp_path).headers == {"ETag": "a"}
    sent = Unsigned().in_header()
    assert answered(sent, tmp_path, CONTENT_LENGTH="").environ["CONTENT_LENGTH"] == "0"

    given: dict[str, Any] = {"HTTP_X_MOTO_ACCOUNT_ID": "9" * 12, "HTTP_X_MOTO_OTHER": "x"}
    environ = answered(Unsigned().in_header(), tmp_path, **given).environ
    seen = {name: value for name, value in environ.items() if name.startswith("HTTP_X_MOTO_")}
    assert seen == {"HTTP_X_MOTO_ACCOUNT_ID": ACCOUNT}


def test_a_body_has_a_stated_length_up_to_a_limit(tmp_path: Any) -> None:
    cases: list[tuple[dict[str, Any], bytes]] = [
        ({"HTTP_TRANSFER_ENCODING": "chunked"}, b"send a Content-Length instead"),
        ({"CONTENT_LENGTH": "two"}, b"its Content-Length is 'two'; send a number"),
        ({"CONTENT_LENGTH": "-1"}, b"its Content-Length is '-1'; send a number"),
        ({"CONTENT_LENGTH": "\u0663"}, b"; send a number"),
        ({"CONTENT_LENGTH": "1" * 16}, b"; send a number"),
    ]
    for environ, problem in cases:
        answer = answered(JSON.in_header(), tmp_path, **environ)
        assert (answer.status, problem in answer.body) == ("403 Forbidden", True)
    for more_bytes, status in [(0, "200 OK"), (1, "403 Forbidden")]:
        body = b" " * (LARGEST_UNSTATED_BODY_BYTES + more_bytes)
        unsigned = Unsigned(service="logs", method="POST", target="/", body=body)
        assert answered(unsigned.in_header(), tmp_path).status == status


def test_only_a_long_body_of_an_object_goes_to_the_disk(tmp_path: Any) -> None:
    cases = [("PUT", 1, True), ("PUT", 0, False), ("POST", 1, False)]
    for method, more_bytes, on_the_disk in cases:
        body = b"x" * (IN_MEMORY_BYTES + more_bytes)
        environ = answered(Unsigned(method=method, body=body).in_header(), tmp_path).environ
        assert isinstance(environ.get(ENVIRON), ObjectContent) == on_the_disk
        assert environ["CONTENT_LENGTH"] == ("0" if on_the_disk else str(len(body)))


def test_moto_is_told_the_service_of_a_presigned_url(tmp_path: Any) -> None:
    for service in ["sns", "s3"]:
        environ = answered(Unsigned(service=service).is_signed_in_query(), tmp_path).environ
        assert f"/{service}/aws4_request" in environ["HTTP_AUTHORIZATION"]


def test_a_refusal_of_head_has_no_body(tmp_path: Any) -> None:
    for method, has_body in [("GET", True), ("HEAD", False)]:
        answer = answered(Unsigned(method=method, secret="guessed").in_header(), tmp_path)
        assert (bool(answer.body), int(answer.headers["Content-Length"]) > 0) == (has_body, True)


PLAIN = ReceivedRequest("GET", "/bucket/key?list-type=2", [("Host", f"127.0.0.1:{PORT}")])


def test_a_loopback_name_or_address_with_our_port_alone_is_answered() -> None:
    for host in ("127.0.0.1:4566", "localhost:4566", "[::1]:4566"):
        check_origin(replace(PLAIN, headers=[("host", host)]), PORT)
    for host in (
        "evil.example:4566", "evil.example", "127.0.0.1", "localhost", "127.0.0.1:80",
        "127.0.0.1:04566", "10.0.0.1:4566", "127.9.8.7:4566", "0.0.0.0:4566",
        "127.0.0.1.evil.example:4566", "localhost.evil.example:4566", "bucket.localhost:4566",
        "localhost.:4566", "::1:4566", "[127.0.0.1]:4566", "[::1:4566", "127.1:4566",
        "2130706433:4566", "", ":4566", "user@127.0.0.1:4566", "127.0.0.1:4566, evil.example",
    ):  # fmt: skip
        with pytest.raises(AccessError, match="allowed: 127.0.0.1:4566, .*localhost:4566"):
            check_origin(replace(PLAIN, headers=[("Host", host)]), PORT)
    with pytest.raises(AccessError, match="no Host header"):
        check_origin(replace(PLAIN, headers=[]), PORT)


def test_what_no_client_of_aws_sends_is_refused() -> None:
    def sent(*headers: tuple[str, str]) -> ReceivedRequest:
        return replace(PLAIN, headers=[*PLAIN.headers, *headers])

    once = ("Authorization", "Content-Type", "Content-Length", "X-Amz-Target", "X-Amz-Date")
    origins = ("https://evil.example", "null", "http://127.0.0.1:4566", "")
    nowhere = ("http://127.0.0.1:4566/bucket", "*", "127.0.0.1:4566", "/a#b", "/ä", "/a\x01", "")
    elsewhere = ("/moto-api/", "/moto-api/reset", "//moto-api/reset", "/%6doto-api/reset",
                 "/latest/meta-data/iam/security-credentials/", "/latest/api/token",
                 "/favicon.ico")  # fmt: skip
    refused = [(sent(("oRiGiN", one)), "requests from web pages are rejected") for one in origins]
    for name in ("Host", *once):
        refused.append((sent((name, "1"), (name.upper(), "1")), f"{name.lower()} twice"))
    for method in ("OPTIONS", "TRACE", "CONNECT", "get"):
        refused.append((replace(PLAIN, method=method), f"its method is {method}"))
    for targets, problem in (
        (nowhere, "its target isn't a path"),
        (elsewhere, "isn't served by the local AWS"),
    ):
        refused += [(replace(PLAIN, target=target), problem) for target in targets]
    for request, problem in refused:
        with pytest.raises(AccessError, match=problem):
            check_origin(request, PORT)
