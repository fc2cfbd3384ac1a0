"""CRC-32C of a text of any length is that of the definition, bit by bit."""

import random

import pytest

from servable_tensors.crc32c import crc32c


def bit_by_bit(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


# From 64 KiB on segments are computed side by side.
@pytest.mark.parametrize("size", [0, 1, 3, 4, 65_535, 65_536, 65_537, 131_079])
def test_the_crc_is_that_of_the_definition(size: int) -> None:
    data = random.Random(size).randbytes(size)
    assert crc32c(data) == bit_by_bit(data)


def test_blocks_of_a_mebibyte_are_the_same_as_their_parts() -> None:
    """https://www.rfc-editor.org/rfc/rfc3720 B.4 has short vectors only: zeros move the register on."""
    ones, zeros = b"\xff" * (1 << 20), bytes(1 << 20)
    # A CRC is linear: of three texts of one length the CRC of their sum is the sum of their CRCs.
    data = random.Random(0).randbytes(1 << 20)
    total = bytes(byte ^ 0xFF for byte in data)
    assert crc32c(total) == crc32c(data) ^ crc32c(ones) ^ crc32c(zeros)
