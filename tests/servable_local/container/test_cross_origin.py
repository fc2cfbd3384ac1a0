"""Which requests are refused because a web page may have sent them."""

import ipaddress
from urllib.parse import urlsplit

from hypothesis import given
from hypothesis import strategies as st

from servable_local.protection import explain_rejection, list_own_hosts

PORT = 8080
OWN = list_own_hosts(PORT)


def _status(
    *hosts: bytes, origin: bytes | None = None, target: bytes = b"/invocations", port: int = PORT
) -> int | None:
    refused = explain_rejection(list_own_hosts(port), hosts=hosts, origin=origin, target=target)
    return None if refused is None else refused[0]


def test_a_loopback_name_or_address_with_the_servers_port_goes_through() -> None:
    for host in [b"127.0.0.1:8080", b"localhost:8080", b"LocalHost:8080", b"[::1]:8080"]:
        assert _status(host) is None
    for host in [b"localhost", b"localhost:80", b"127.0.0.1", b"[::1]"]:
        assert _status(host, port=80) is None


def test_every_other_host_and_origin_is_403_and_none_or_several_400() -> None:
    for host in [
        b"evil.example:8080", b"evil.example", b"localhost.evil.example:8080", b"evil.localhost:8080",
        b"localhost.:8080", b"127.0.0.1.:8080", b"127.0.0.1", b"localhost", b"localhost:", b"localhost:80",
        b"localhost:08080", b"localhost:8080:8080", b"user@localhost:8080", b"127.1:8080",
        b"2130706433:8080", b"0x7f.0.0.1:8080", b"127.0.0.2:8080", b"0.0.0.0:8080", b"::1:8080",
        b"[::ffff:127.0.0.1]:8080", b"gunicorn_upstream", b"tfs_upstream",
        b"localhost:8080, localhost:8080", b" localhost:8080", b"", b"\xff",
    ]:  # fmt: skip
        assert _status(host) == 403
    for origin in [b"https://evil.example", b"null", b"", b"http://localhost:8080"]:
        assert _status(b"localhost:8080", origin=origin) == 403

    cases: list[tuple[bytes, ...]] = [(), (b"localhost:8080", b"localhost:8080")]
    for hosts in cases:
        assert _status(*hosts) == 400
    for target in [b"http://localhost:8080/ping", b"*", b"localhost:8080", b""]:
        assert _status(b"localhost:8080", target=target) == 400

    refused = explain_rejection(OWN, hosts=[b"evil.example"], origin=None, target=b"/")
    assert refused is not None
    assert refused[1] == (
        "Host 'evil.example': not an address of this server; "
        "allowed: 127.0.0.1:8080, [::1]:8080, localhost:8080"
    )


@given(st.text("0123456789.:[]lochstLOCHST@%\t evil", max_size=24).map(str.encode))
def test_a_host_that_goes_through_is_loopback_for_urllib_and_ipaddress(host: bytes) -> None:
    if _status(host) is None:
        parsed = urlsplit(f"http://{host.decode()}/")
        name = parsed.hostname or ""
        assert parsed.port == PORT
        assert name == "localhost" or ipaddress.ip_address(name).is_loopback
