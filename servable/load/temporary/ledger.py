"""Costs of temporary endpoints, in a file that survives a kill -9; an entry without an end costs on."""

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from model_packaging.beside import write_beside


@dataclass(frozen=True, kw_only=True)
class LedgerEntry:
    """One endpoint, from the request to make it until it was gone. Seconds since 1970."""

    name: str
    usd_per_hour: float
    began: float
    ended: float | None = None

    def usd(self, now: float) -> float:
        end = now if self.ended is None else self.ended
        return max(0.0, end - self.began) / 3600 * self.usd_per_hour


_FORM = TypeAdapter(list[LedgerEntry])


class Ledger:
    """`file` None: of this run alone."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._entries = _FORM.validate_json(file.read_bytes()) if file and file.exists() else []

    @property
    def usd(self) -> float:
        """No less than is billed."""
        now = time.time()
        return sum(entry.usd(now) for entry in self._entries)

    def begin(self, name: str, usd_per_hour: float) -> None:
        """Record an endpoint before it is created, so that a kill in the next moment leaves its entry."""
        self._entries.append(LedgerEntry(name=name, usd_per_hour=usd_per_hour, began=time.time()))
        self._write()

    def end(self, name: str | None = None) -> None:
        """Record that an endpoint is gone. None: all are, those of earlier runs included."""
        self._entries = [
            dataclasses.replace(entry, ended=time.time())
            if entry.ended is None and name in (None, entry.name)
            else entry
            for entry in self._entries
        ]
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            write_beside(self._file, _FORM.dump_json(self._entries, indent=1))
