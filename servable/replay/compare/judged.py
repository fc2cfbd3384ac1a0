"""The comparison of a replay from its first answer to its page: what is added, printed, written and
decided."""

from pathlib import Path
from typing import Any

import click

from infra.packing import servable
from infra.parameters.loading import ValidFile
from infra.parameters.replay import Replay
from model_packaging.refusal import PackagingError
from model_packaging.saved_model import read
from model_packaging.saved_model.reading import DEFAULT_SIGNATURE
from servable.answer_outputs import WHOLE_BODY
from servable.replay.compare.comparison import Comparison
from servable.replay.compare.gate import ReplayVerdict, judged
from servable.replay.compare.output import as_object, lines, write_worst
from servable.replay.redaction import Redaction
from servable.replay.skipped import ReadLines
from servable_tensors import UNNAMED_OUTPUT


def output_names(loaded: ValidFile | None, variant: str | None) -> list[str]:
    """The names of the outputs of the model that is asked; none if it is elsewhere."""
    if loaded is None:
        return []
    environment = loaded.environment
    placed = environment.served.get(variant or next(iter(environment.served)))
    model = environment.models.get(placed.model) if placed else None
    if placed is None or model is None or model.saved_model is None:
        return []
    try:
        newest = list(servable(placed.model, model).versions().values())[-1]
        names = read(newest).signatures.get(DEFAULT_SIGNATURE)
    except (PackagingError, OSError, IndexError):
        return []  # serving it will say what is wrong
    return list(names.outputs) if names else []


class ReplayComparison:
    """Compares a replay's answers as they come."""

    def __init__(
        self,
        limits: Replay,
        *,
        gate: bool,
        side_by_side: bool,
        outputs: list[str],
        redaction: Redaction | None = None,
    ) -> None:
        """`gate`: whether limits decide; `side_by_side`: whether two targets are asked; `outputs`: names of
        the model's."""
        self._limits, self._gate, self._side_by_side = limits, gate, side_by_side
        self._redaction = redaction
        only = outputs[0] if len(outputs) == 1 else UNNAMED_OUTPUT
        names = {only, WHOLE_BODY, *limits.outputs, *outputs} if redaction else set()
        self.comparison = Comparison(limits, only_output=only, shown=names)
        self.lines = ReadLines()
        """Captured lines that were read, once they are."""

    def verdict(self) -> ReplayVerdict | None:
        """The gate's verdict; None without a gate."""
        self.comparison.finish()
        if not self._gate:
            return None
        return judged(self.comparison, self._limits, self.lines, side_by_side=self._side_by_side)

    def as_object(self) -> dict[str, Any]:
        verdict = self.verdict()
        return as_object(self.comparison, self._limits, verdict, side_by_side=self._side_by_side)

    def show(self, *, whole: bool) -> None:
        """Print what was compared. `whole`: all requests were sent, so that the gate decides."""
        verdict = self.verdict() if whole else None
        self.comparison.finish()
        for line in lines(self.comparison, self._limits, side_by_side=self._side_by_side):
            click.echo(line)
        if verdict is not None:
            click.echo(f"gate: {verdict.held}")
            for sentence in verdict.lines:
                click.echo(f"gate: {sentence}")

    def write(self, folder: Path, title: str, where: str) -> None:
        """Write the page, and the requests that differ most as a capture file."""
        from servable.replay.compare.page import write  # a second of imports

        verdict = self.verdict()
        if self._redaction is not None:
            # Labels are parts of bodies.
            for output in self.comparison.outputs.values():
                output.examples.clear()
        requests = [worst.pair.request for worst in self.comparison.worst]
        if self._redaction is not None:
            requests = list(map(self._redaction.request, requests))
        worst = write_worst(requests, folder)
        page = write(
            folder,
            self.comparison,
            self._limits,
            title=title,
            where=where,
            gate=verdict,
            side_by_side=self._side_by_side,
        )
        if worst is not None:
            click.echo(
                f"{worst}: the requests that differ most; replay them with --captured", err=True
            )
        click.echo(f"{page}: report with pictures", err=True)
