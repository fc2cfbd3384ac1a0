"""Pages are not answered, under whatever name they came by; programs of this computer are."""

from dataclasses import replace

import pytest

from servable_local.aws.refusals import AccessError
from servable_local.aws.request_router import check_origin
from servable_local.aws.signed_request import ReceivedRequest

PORT = 4566
PLAIN = ReceivedRequest("GET", "/bucket/key?list-type=2", [("Host", f"127.0.0.1:{PORT}")])


def _with(*headers: tuple[str, str]) -> ReceivedRequest:
    return replace(PLAIN, headers=[*PLAIN.headers, *headers])


@pytest.mark.parametrize("host", ["127.0.0.1:4566", "localhost:4566", "[::1]:4566"])
def test_a_loopback_name_or_address_with_our_port_is_answered(host: str) -> None:
    check_origin(replace(PLAIN, headers=[("host", host)]), PORT)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:4566", "evil.example", "127.0.0.1", "localhost", "127.0.0.1:80",
        "127.0.0.1:04566", "10.0.0.1:4566", "127.9.8.7:4566", "0.0.0.0:4566", "127.0.0.1.evil.example:4566",
        "localhost.evil.example:4566", "bucket.localhost:4566", "localhost.:4566", "::1:4566",
        "[127.0.0.1]:4566", "[::1:4566", "127.1:4566", "2130706433:4566", "", ":4566",
        "user@127.0.0.1:4566", "127.0.0.1:4566, evil.example",
    ],
)  # fmt: skip
def test_any_other_host_is_refused_and_told_ours(host: str) -> None:
    with pytest.raises(AccessError, match="allowed: 127.0.0.1:4566, .*localhost:4566"):
        check_origin(replace(PLAIN, headers=[("Host", host)]), PORT)


def test_a_request_without_a_host_is_refused() -> None:
    with pytest.raises(AccessError, match="no Host header"):
        check_origin(replace(PLAIN, headers=[]), PORT)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:4566", ""])
def test_a_request_with_an_origin_is_refused(origin: str) -> None:
    with pytest.raises(AccessError, match="requests of web pages are refused"):
        check_origin(_with(("oRiGiN", origin)), PORT)


@pytest.mark.parametrize(
    "name",
    ["Host", "Authorization", "Content-Type", "Content-Length", "X-Amz-Target", "X-Amz-Date"],
)
def test_a_header_that_could_be_read_in_two_ways_is_refused(name: str) -> None:
    with pytest.raises(AccessError, match=f"{name.lower()} twice"):
        check_origin(_with((name, "1"), (name.upper(), "1")), PORT)


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "get"])
def test_a_method_that_no_service_has_is_refused(method: str) -> None:
    with pytest.raises(AccessError, match=f"its method is {method}"):
        check_origin(replace(PLAIN, method=method), PORT)


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:4566/bucket", "*", "127.0.0.1:4566", "/a#b", "/ä", "/a\x01", ""]
)
def test_a_target_that_is_no_path_is_refused(target: str) -> None:
    with pytest.raises(AccessError, match="its target is no path"):
        check_origin(replace(PLAIN, target=target), PORT)


@pytest.mark.parametrize(
    "target",
    [
        "/moto-api/", "/moto-api/reset", "//moto-api/reset", "/%6doto-api/reset",
        "/latest/meta-data/iam/security-credentials/", "/latest/api/token", "/favicon.ico",
    ],
)  # fmt: skip
def test_what_moto_answers_without_asking_who_it_is_is_not_served(target: str) -> None:
    with pytest.raises(AccessError, match="is not served here"):
        check_origin(replace(PLAIN, target=target), PORT)
