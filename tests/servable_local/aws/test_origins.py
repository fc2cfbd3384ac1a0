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


def test_any_other_host_is_refused_and_told_ours() -> None:
    for host in [
        "evil.example:4566",
        "evil.example",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:80",
        "127.0.0.1:04566",
        "10.0.0.1:4566",
        "127.9.8.7:4566",
        "0.0.0.0:4566",
        "127.0.0.1.evil.example:4566",
        "localhost.evil.example:4566",
        "bucket.localhost:4566",
        "localhost.:4566",
        "::1:4566",
        "[127.0.0.1]:4566",
        "[::1:4566",
        "127.1:4566",
        "2130706433:4566",
        "",
        ":4566",
        "user@127.0.0.1:4566",
        "127.0.0.1:4566, evil.example",
    ]:
        with pytest.raises(AccessError, match="allowed: 127.0.0.1:4566, .*localhost:4566"):
            check_origin(replace(PLAIN, headers=[("Host", host)]), PORT)
    with pytest.raises(AccessError, match="no Host header"):
        check_origin(replace(PLAIN, headers=[]), PORT)


def test_what_no_client_of_aws_sends_is_refused() -> None:
    for origin in ["https://evil.example", "null", "http://127.0.0.1:4566", ""]:
        with pytest.raises(AccessError, match="requests of web pages are refused"):
            check_origin(_with(("oRiGiN", origin)), PORT)
    for name in [
        "Host",
        "Authorization",
        "Content-Type",
        "Content-Length",
        "X-Amz-Target",
        "X-Amz-Date",
    ]:
        with pytest.raises(AccessError, match=f"{name.lower()} twice"):
            check_origin(_with((name, "1"), (name.upper(), "1")), PORT)
    for method in ["OPTIONS", "TRACE", "CONNECT", "get"]:
        with pytest.raises(AccessError, match=f"its method is {method}"):
            check_origin(replace(PLAIN, method=method), PORT)


def test_a_target_that_no_service_has_is_refused() -> None:
    for target in [
        "http://127.0.0.1:4566/bucket",
        "*",
        "127.0.0.1:4566",
        "/a#b",
        "/ä",
        "/a\x01",
        "",
    ]:
        with pytest.raises(AccessError, match="its target is no path"):
            check_origin(replace(PLAIN, target=target), PORT)
    for target in [
        "/moto-api/",
        "/moto-api/reset",
        "//moto-api/reset",
        "/%6doto-api/reset",
        "/latest/meta-data/iam/security-credentials/",
        "/latest/api/token",
        "/favicon.ico",
    ]:
        with pytest.raises(AccessError, match="is not served here"):
            check_origin(replace(PLAIN, target=target), PORT)
