"""Wheels of a release: uncompressed, so that the installed files give the wheel's hash again.

A wheel cannot hold its own hash, and the requirements.txt of a new project needs it.
"""

import csv
import io
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import distribution

DISTRIBUTION = "servable-endpoints"
# An installer adds others beside them.
_DESCRIPTION = {"METADATA", "WHEEL", "entry_points.txt", "top_level.txt", "LICENSE"}


def wheel_bytes(files: Mapping[str, bytes]) -> bytes:
    """Return the wheel of these files, with a RECORD of its own: the same bytes for the same files.

    Names and contents alone decide; what compression writes would depend on zlib's version.
    """
    (metadata,) = (name for name in files if name.endswith(".dist-info/METADATA"))
    record = metadata.replace("METADATA", "RECORD")
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:

        def add(name: str, content: bytes) -> None:
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, 0o100644 << 16  # as on Linux
            archive.writestr(entry, content)

        for name in sorted(files, key=lambda name: (".dist-info/" in name, name)):
            if name != record:
                add(name, files[name])
                digest = urlsafe_b64encode(sha256(files[name]).digest()).decode().rstrip("=")
                rows.writerow([name, f"sha256={digest}", len(files[name])])
        rows.writerow([record, "", ""])
        add(record, text.getvalue().encode())
    return out.getvalue()


def installed_sha256() -> str:
    """Return the SHA-256 of the wheel that this command was installed from, whoever installed it."""
    return sha256(
        wheel_bytes(
            {
                file.as_posix(): file.read_binary()
                for file in distribution(DISTRIBUTION).files or ()
                if ".." not in file.parts
                and "__pycache__" not in file.parts
                and (".dist-info" not in file.parts[0] or file.name in _DESCRIPTION)
            }
        )
    ).hexdigest()
