"""NumPy's .npz as body: arrays by name, not compressed, nothing pickled."""

import io
import struct
import zipfile
import zlib

from servable_client.arrays import UNNAMED, Array, Arrays
from servable_client.errors import BadInputError
from servable_client.formats.npy import array_of, file_of
from servable_client.selection import Selection

MOST_OUTPUTS = 4096
MOST_UNPACKED_BYTES = 64 << 20
"""SageMaker's answers have 25 MB at most; a damaged or hostile one may unpack to any size."""


def encode(arrays: Arrays, selection: Selection) -> bytes:
    """Raises `BadInputError`."""
    if UNNAMED in arrays:
        raise BadInputError('a .npz holds arrays by name; name the input, or use format="npy"')
    if wrong := [name for name in arrays if "\0" in name]:
        raise BadInputError(f"{wrong[0]!r}: the name of an array in a .npz has no zero in it")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            # Without a time, so that the same arrays give the same bytes.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), file_of(name, array))
    return file.getvalue()


def decode(body: bytes) -> dict[str, Array]:
    """Raises `ValueError`."""
    if not body.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        raise ValueError("it does not begin as a .npz file")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            files = archive.infolist()
            unpacked = sum(file.file_size for file in files)
            if len(files) > MOST_OUTPUTS or unpacked > MOST_UNPACKED_BYTES:
                raise ValueError(
                    f"{len(files)} arrays of {unpacked} bytes; at most {MOST_OUTPUTS} and "
                    f"{MOST_UNPACKED_BYTES} bytes are read"
                )
            names = [file.filename.removesuffix(".npy") for file in files]
            if len(set(names)) < len(names):
                raise ValueError("it holds the same name twice")
            return {
                name: array_of(_unpacked(archive, file))
                for name, file in zip(names, files, strict=True)
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, KeyError) as error:
        raise ValueError(str(error)) from None
    except (OverflowError, IndexError, struct.error) as error:
        # zipfile's words for a damaged directory.
        raise ValueError(f"its directory is damaged ({error})") from None


def _unpacked(archive: zipfile.ZipFile, file: zipfile.ZipInfo) -> bytes:
    # Other methods can be told to take gigabytes before their first byte is out.
    if file.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{file.filename[:60]}: compressed by other means than deflate")
    return archive.read(file)
