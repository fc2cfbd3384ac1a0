"""NumPy's .npz as body: arrays by name, not compressed, nothing pickled."""

import io
import zipfile
import zlib

from servable_client.arrays import UNNAMED, Array, Arrays
from servable_client.errors import BadInput
from servable_client.formats.npy import array_of, file_of
from servable_client.selection import Selection


def encode(arrays: Arrays, selection: Selection) -> bytes:
    """Raises `BadInput`."""
    if UNNAMED in arrays:
        raise BadInput('a .npz holds arrays by name; name the input, or use format="npy"')
    if wrong := [name for name in arrays if "\0" in name]:
        raise BadInput(f"{wrong[0]!r}: the name of an array in a .npz has no zero in it")
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            # Without a time, so that the same arrays give the same bytes.
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), file_of(name, array))
    return file.getvalue()


def decode(body: bytes) -> dict[str, Array]:
    """Raises `ValueError`."""
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            return {
                file.filename.removesuffix(".npy"): array_of(archive.read(file))
                for file in archive.infolist()
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, KeyError) as error:
        raise ValueError(str(error)) from None
