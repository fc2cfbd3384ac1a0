"""The built-in gRPC client beside h2 and grpcio: what it takes is an answer, and the same one."""

import struct
import time

import pytest

from tests.fuzz.http2_answers import Findings, by_ours
from tests.servable_handler.http2_bytes import (
    DATA,
    HEADERS,
    OPENING,
    SETTINGS,
    TRAILERS,
    frame,
    hpack_number,
)

# A second on a quiet machine; beside other work the same instructions take several times as long.
MOST_CPU_SECONDS = 5.0


@pytest.mark.long
@pytest.mark.timeout(600)
def test_of_many_answers_none_is_read_otherwise_by_h2_or_grpcio() -> None:
    findings = Findings()
    for seed in range(4_000):
        findings.add(seed, with_grpcio=seed < 3_000)
    assert findings.wrong == []
    assert findings.taken > 2_000
    assert findings.slowest_seconds < MOST_CPU_SECONDS


def block_of(size: int, piece: bytes) -> bytes:
    """An answer whose header block repeats the piece."""
    return frame(1, 4, 1, OPENING + piece * (size // len(piece))) + DATA + TRAILERS


def in_one_message(size: int) -> bytes:
    """The head of a message of so many bytes."""
    return frame(0, 0, 1, struct.pack(">BI", 0, size))


MB = 1_000_000
STATUS_NAME = b"\0\x0bgrpc-status" + hpack_number(0, 7, 60_000)
LARGE: dict[str, bytes] = {
    "one long number": block_of(60_000, b"\0\x7f" + b"\xff" * 59_000),
    "a long index": frame(1, 4, 1, b"\xff" * 100_000),
    "long numbers": block_of(60_000, b"\x7f" + b"\xff" * 1_000 + b"\1"),
    "one long number, and no limit": block_of(MB, b"\0\x7f" + b"\xff" * 900_000),
    "small headers": block_of(MB, b"\0\1a\0"),
    "a block of 64 KiB": block_of(65_000, b"\0\1a\0"),
    "different headers": block_of(63_200, b"".join(b"\0\5%05d\0" % n for n in range(7_900))),
    "table sizes": block_of(MB, b"\x20"),
    "pieces of a block": frame(1, 0, 1, b"") + frame(9, 0, 1, b"\x88") * (MB // 10),
    "empty pieces of a block": frame(1, 0, 1, OPENING) + frame(9, 0, 1, b"") * (MB // 9),
    "pings": frame(6, 0, 0, bytes(8)) * (MB // 17),
    "settings": SETTINGS * (MB // 9),
    "one long settings frame": frame(4, 0, 0, bytes(MB // 6 * 6)),
    "empty data": HEADERS + frame(0, 0, 1, b"") * (MB // 9) + DATA + TRAILERS,
    "data of one byte": (
        HEADERS + in_one_message(MB // 10) + frame(0, 0, 1, b"x") * (MB // 10) + TRAILERS
    ),
    "a message": HEADERS + in_one_message(MB) + frame(0, 0, 1, bytes(MB)) + TRAILERS,
    "unknown frames": frame(99, 0, 0, b"") * (MB // 9),
    "a long status": HEADERS + DATA + frame(1, 5, 1, STATUS_NAME + b"9" * 60_000),
    "zeros": bytes(MB),
}


@pytest.mark.parametrize("name", LARGE)
def test_an_answer_of_a_megabyte_takes_little_of_the_processor(name: str) -> None:
    # What begins otherwise is no answer of HTTP/2 from its first byte on.
    begun = b"" if name in ("one long settings frame", "zeros") else SETTINGS
    answer = begun + LARGE[name]
    before = time.process_time()
    by_ours([answer], most_bytes=1 << 14)
    assert time.process_time() - before < MOST_CPU_SECONDS
