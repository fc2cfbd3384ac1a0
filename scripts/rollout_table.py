"""Writes the table "What a rollout sees" of docs/updating.md, from updates in the local AWS.

    python -m scripts.rollout_table

Exits with 1 where a cell is not what `servable plan` says beforehand.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

from infra.parameters.rollout import FAULTS
from servable_local.aws.clock import ManualClock
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.server import Server
from tests.servable_local.aws.container_stand_in import Launcher
from tests.servable_local.aws.rollout_cells import STRATEGIES, Cells, predicted, row

PAGE = Path(__file__).resolve().parents[1] / "docs" / "updating.md"


def main() -> int:
    clock = ManualClock()
    launcher, rows, wrong = Launcher(clock), [], 0
    with tempfile.TemporaryDirectory() as folder:
        server = Server(folder=Path(folder, "aws"), launch=launcher, clock=clock)
        server.start()
        try:
            secret = server.access.secret_access_key
            aws = LocalAws(server.url, os.getpid(), "now", Path(folder, "client"), secret)
            cells = Cells(aws, launcher, clock, server)
            for strategy in STRATEGIES:
                outcomes = {fault: cells.measured(strategy, fault) for fault in FAULTS}
                rows.append(row(strategy, outcomes))
                print(rows[-1], flush=True)
                for fault, outcome in outcomes.items():
                    if outcome != predicted(strategy, fault):
                        wrong += 1
                        print(f"{strategy}: {fault}: plan says {predicted(strategy, fault)}")
        finally:
            server.close()
    page = PAGE.read_text(encoding="utf-8")
    table = re.compile(r"(\| update \|[^\n]*\n\|[-|]+\|\n)(?:\|[^\n]*\n)+")
    PAGE.write_text(table.sub(lambda found: found[1] + "\n".join(rows) + "\n", page), "utf-8")
    print(f"{wrong} of {len(rows) * len(FAULTS)} cells are not what plan says")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
