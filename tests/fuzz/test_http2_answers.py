"""The built-in gRPC client beside h2 and grpcio: what it takes is an answer, and the same one."""

import struct
import time
from collections.abc import Callable

import pytest

from tests.fuzz.http2_answers import Findings, by_ours, encoded, number

SETTINGS = encoded((4, 0, 0, b""))
OPENING = b"\x88\x0f\x10\x10application/grpc"
HEADERS = encoded((1, 4, 1, OPENING))
DATA = encoded((0, 0, 1, b"\0\0\0\0\2ok"))
# A second on a quiet machine; beside other work the same instructions take several times as long.
MOST_CPU_SECONDS = 5.0
TRAILERS = encoded((1, 5, 1, b"\0\x0bgrpc-status\x010"))


def check(seeds: range, *, with_grpcio: int) -> None:
    """`with_grpcio`: so many of them are read by grpcio too."""
    findings = Findings()
    for seed in seeds:
        findings.add(seed, with_grpcio=seed - seeds.start < with_grpcio)
    assert findings.wrong == []
    assert findings.taken > len(seeds) / 2
    assert findings.slowest_seconds < MOST_CPU_SECONDS


def test_what_the_built_in_client_takes_h2_and_grpcio_take_as_the_same_answer() -> None:
    check(range(0, 500), with_grpcio=100)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_of_many_answers_too_the_built_in_client_takes_none_that_h2_or_grpcio_read_otherwise() -> (
    None
):
    check(range(10_000, 14_000), with_grpcio=3_000)


def block_of(size: int, piece: bytes) -> bytes:
    """An answer whose header block repeats the piece."""
    payload = OPENING + piece * (size // len(piece))
    return SETTINGS + encoded((1, 4, 1, payload)) + DATA + TRAILERS


LARGE: dict[str, Callable[[int], bytes]] = {
    "one long number": lambda size: block_of(60_000, b"\0\x7f" + b"\xff" * 59_000),
    "long numbers": lambda size: block_of(60_000, b"\x7f" + b"\xff" * 1_000 + b"\1"),
    "one long number, and no limit": lambda size: block_of(size, b"\0\x7f" + b"\xff" * 900_000),
    "small headers": lambda size: block_of(size, b"\0\1a\0"),
    "a block of 64 KiB": lambda size: block_of(65_000, b"\0\1a\0"),
    "different headers": lambda size: (
        SETTINGS
        + encoded((1, 4, 1, OPENING + b"".join(b"\0\5%05d\0" % n for n in range(7_900))))
        + DATA
        + TRAILERS
    ),
    "table sizes": lambda size: block_of(size, b"\x20"),
    "pieces of a block": lambda size: (
        SETTINGS + encoded((1, 0, 1, b"")) + encoded((9, 0, 1, b"\x88")) * (size // 10)
    ),
    "empty pieces of a block": lambda size: (
        SETTINGS + encoded((1, 0, 1, OPENING)) + encoded((9, 0, 1, b"")) * (size // 9)
    ),
    "pings": lambda size: SETTINGS + encoded((6, 0, 0, bytes(8))) * (size // 17),
    "settings": lambda size: SETTINGS * (size // 9),
    "one long settings frame": lambda size: encoded((4, 0, 0, bytes(size // 6 * 6))),
    "empty data": lambda size: (
        SETTINGS + HEADERS + encoded((0, 0, 1, b"")) * (size // 9) + DATA + TRAILERS
    ),
    "data of one byte": lambda size: (
        SETTINGS
        + HEADERS
        + encoded((0, 0, 1, struct.pack(">BI", 0, size // 10)))
        + encoded((0, 0, 1, b"x")) * (size // 10)
        + TRAILERS
    ),
    "a message": lambda size: (
        SETTINGS
        + HEADERS
        + encoded((0, 0, 1, struct.pack(">BI", 0, size) + bytes(size)))
        + TRAILERS
    ),
    "unknown frames": lambda size: SETTINGS + encoded((99, 0, 0, b"")) * (size // 9),
    "a long status": lambda size: (
        SETTINGS
        + HEADERS
        + DATA
        + encoded((1, 5, 1, b"\0\x0bgrpc-status" + number(0, 7, 60_000) + b"9" * 60_000))
    ),
    "zeros": bytes,
}


@pytest.mark.parametrize("name", LARGE)
def test_an_answer_of_a_megabyte_takes_little_of_the_processor(name: str) -> None:
    answer = LARGE[name](1_000_000)
    before = time.process_time()
    by_ours([answer], most_bytes=1 << 14)
    assert time.process_time() - before < MOST_CPU_SECONDS
