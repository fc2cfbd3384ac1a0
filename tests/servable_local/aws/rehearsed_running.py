"""As test_rehearsed_alike, with containers that run and a minute of 2 s: three times 90 of them.

Run by hand on a quiet computer: `python -m tests.servable_local.aws.rehearsed_running`. It takes 10 minutes,
and ends with an AssertionError where an activity or an alarm comes more than a minute apart.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import endpoints
from servable_local.aws.clock import ScaledClock
from servable_local.aws.local_aws import LocalAws
from servable_local.aws.server import Server
from tests.servable_local.aws.local_account import Account
from tests.servable_local.aws.test_rehearsed_alike import STEP, Window, assert_alike
from tests.servable_local.aws.test_scaling_acts import MANY, TRACKING
from tests.servable_local.aws.watched_endpoint import Watched, forget_everything

SECONDS_PER_MINUTE = 2.0


class WaitedClock(ScaledClock):
    """Goes on by itself: `advance` waits."""

    def advance(self, *, minutes: float = 0.0, seconds: float = 0.0) -> None:
        """To the end of whole minutes, so that what a minute took does not add up."""
        left = 60 * minutes + seconds - (self.now().second if minutes else 0)
        time.sleep(max(0.0, left) * self.seconds_per_minute / 60)


def main(cases: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="servable-alike-") as temporary:
        folder, clock = Path(temporary), WaitedClock(SECONDS_PER_MINUTE)
        models = {"small": endpoints.export_model(folder / "model")}
        archive = endpoints.pack(folder / "model.tar.gz", models).read_bytes()
        (folder / "aws").mkdir()
        server = Server(folder=folder / "aws", clock=clock)
        server.start()
        try:
            aws = LocalAws(server.url, os.getpid(), "now", folder, server.access.secret_access_key)
            for case in cases or ["tracking", "steps", "schedules"]:
                account = Account(aws, None)  # type: ignore[arg-type]
                account.settled_within_seconds = 180.0  # its containers run
                window = Window(Watched(account, clock), archive)  # type: ignore[arg-type]
                if case == "steps":
                    window.policy(STEP, MANY)
                else:
                    window.policy(TRACKING["Properties"])
                if case == "schedules":
                    window.schedule("morning", 20, MinCapacity=3)
                    window.schedule("evening", 50, MinCapacity=1)
                assert_alike(window)
                print(f"{case}: alike", flush=True)
                forget_everything(server)
        finally:
            server.close()


if __name__ == "__main__":
    main(sys.argv[1:])
