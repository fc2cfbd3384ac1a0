"""Whether the folder of a model is one that only this user, or root, can have filled.

POST /models names a folder, and the code in it then runs with the rights of who serves. Every
user of the computer can send that request; so the folder must not be one of theirs.
"""

import os
import stat
from pathlib import Path


def foreign(folder: Path) -> str | None:
    """Why another user may have written to `folder`, a sentence; None where no other user can.

    `folder` has no links in it: see `Path.resolve`. Raises `OSError`.
    """
    for path in (folder, *folder.parents):
        status = path.stat()
        if status.st_uid not in (0, os.geteuid()):
            return (
                f"{path}: belongs to another user, whose code is not run; "
                "unpack the model into a folder of your own"
            )
        # In a sticky folder, as /tmp, nobody can replace what is another's.
        if status.st_mode & stat.S_IWOTH and not (path != folder and status.st_mode & stat.S_ISVTX):
            return f"{path}: every user can write to it; take that right away: chmod o-w {path}"
        if status.st_uid == os.geteuid() and not status.st_mode & stat.S_IXOTH:
            return None  # nobody else gets below it
    return None
