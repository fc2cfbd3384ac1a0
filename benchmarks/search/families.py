"""The families, one after the other, each kept as soon as it is done."""

import dataclasses
import json
import re
import time
from pathlib import Path
from typing import Any

from benchmarks.command import Told
from benchmarks.search.contenders import CONTENDERS
from benchmarks.search.crew import Crew
from benchmarks.search.run import Run, everyone, flat
from benchmarks.search.surfaces import FAMILIES
from model_packaging.beside import beside

Runs = dict[str, list[dict[str, Any]]]


class Families:
    """`folder`: of what is kept; another key of what the numbers follow from is another folder."""

    def __init__(self, crew: Crew, seeds: range, folder: Path, told: Told) -> None:
        self._crew, self._seeds, self._folder, self._told = crew, seeds, folder, told
        self._began, self._searched, self._left = time.monotonic(), 0, len(FAMILIES) * len(seeds)

    def runs(self, family: str) -> Runs:
        """contender -> its runs, by seed."""
        kept = self._folder / f"{re.sub(r'[^a-z0-9]+', '-', family.lower())}.json"
        if kept.exists():
            self._left -= len(self._seeds)
            self._told(f"{family}: done before")
            found: Runs = json.loads(kept.read_text(encoding="utf-8"))
            return found
        by_seed: dict[int, list[Run]] = {}
        for (_, seed), runs in self._crew.each(_everyone, [(family, one) for one in self._seeds]):
            by_seed[seed] = runs
            self._searched, self._left = self._searched + 1, self._left - 1
            if len(by_seed) % 5 == 0:
                self._told(
                    f"{family}: {len(by_seed)} of {len(self._seeds)} seeds{self._estimate()}"
                )
        found = {
            contender: [dataclasses.asdict(by_seed[seed][at]) for seed in self._seeds]
            for at, contender in enumerate(CONTENDERS)
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        with beside(kept) as file:
            file.write(json.dumps(found).encode())
        return found

    def flat(self) -> list[dict[str, Any]]:
        stops = dict(self._crew.each(flat, list(self._seeds)))
        return [
            {"seed": seed, "trials": stops[seed][0], "why": stops[seed][1]} for seed in self._seeds
        ]

    def _estimate(self) -> str:
        """From what was searched in this run; the families differ by as much as their grids do."""
        seconds = (time.monotonic() - self._began) / self._searched * self._left
        return f", about {seconds / 60:.1f} more minutes" if self._left else ""


def _everyone(job: tuple[str, int]) -> list[Run]:
    return everyone(*job)
