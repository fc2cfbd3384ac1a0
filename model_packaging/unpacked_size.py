"""How large a gzip stream is unpacked, counted as its bytes pass by."""

from isal import isal_zlib

from model_packaging.isal_error import IsalError

# A gzip header and trailer, as zlib's windowBits say it.
_GZIP = 16 + isal_zlib.MAX_WBITS


class UnpackedSize:
    """`bytes` is None once the stream turned out not to be gzip."""

    def __init__(self) -> None:
        self._member = isal_zlib.decompressobj(_GZIP)
        self.bytes: int | None = 0

    def take(self, data: bytes) -> None:
        try:
            while data and self.bytes is not None:
                self.bytes += len(self._member.decompress(data))
                data = self._member.unused_data
                if self._member.eof:
                    self._member = isal_zlib.decompressobj(_GZIP)
        except IsalError:
            self.bytes = None
