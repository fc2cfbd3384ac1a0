"""NumPy's archives .npz as bodies: tensors by name. Believed only as far as they unpack into the bound.

Source: https://numpy.org/doc/1.26/reference/generated/numpy.savez.html
"""

import io
import zipfile
import zlib
from collections.abc import Callable, Collection

from servable_tensors.errors import TensorError, TensorTooLargeError
from servable_tensors.npy import from_npy, to_npy
from servable_tensors.tensors import Array, Arrays

MOST_UNPACKED_BYTES = 64 << 20


def from_npz(
    body: bytes, check_names: Callable[[Collection[str]], None] = lambda names: None
) -> dict[str, Array]:
    """The archive's arrays by name. Raises `TensorError`: 413 for more than 64 MiB unpacked.

    `check_names` is called before anything is unpacked, and raises for names that are not wanted.
    """
    if not body.startswith(b"PK"):
        # An archive is found from its end: before it might stand something else, as a .npy.
        raise TensorError("the body is no .npz: it does not begin as one")
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            files = archive.infolist()
            unpacked = sum(file.file_size for file in files)
            if unpacked > MOST_UNPACKED_BYTES:
                raise TensorTooLargeError(
                    f"the .npz unpacks to {unpacked} bytes; "
                    f"at most {MOST_UNPACKED_BYTES} are allowed: send less in one request",
                )
            names = [file.filename.removesuffix(".npy") for file in files]
            if len(set(names)) < len(names):
                raise TensorError("the .npz holds the same name twice")
            check_names(names)
            return {
                name: from_npy(_member(archive, file), name[:60])
                for name, file in zip(names, files, strict=True)
            }
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
        raise TensorError(f"the body is no .npz: {error}") from None
    except (NotImplementedError, RuntimeError, KeyError, OverflowError, IndexError) as error:
        # zipfile's words for an encrypted member, an unknown method, a damaged directory.
        raise TensorError(f"the .npz cannot be read: {error}") from None


def to_npz(arrays: Arrays) -> bytes:
    """The arrays as an uncompressed .npz file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), to_npy(array))
    return file.getvalue()


def _member(archive: zipfile.ZipFile, file: zipfile.ZipInfo) -> bytes:
    # Other methods can be told to take gigabytes before their first byte is out.
    if file.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise TensorError(f"{file.filename[:60]}: compressed by other means than deflate")
    return archive.read(file)
