"""Trials on this machine: the container's double with other settings."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from local.endpoint.launch import LaunchError
from model_packaging.private_folder import private_folder
from operations.load import Reached
from operations.serve import prepared
from operations.serving import serve_double
from operations.trials import NotServed, Trials
from operations.yielding import yielding
from tuning.bodies import Body
from tuning.machine_space import Machines
from tuning.measurement import Asked
from tuning.pace import Pace
from tuning.search.space import Point
from tuning.target import container
from tuning.worth import Goal


class LocalTrials(Trials):
    trial_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=4.0)
    curve_pace = Pace(warm_up_seconds=1.0, least_seconds=3.0, most_seconds=6.0)

    def __init__(
        self,
        machines: Machines,
        bodies: Sequence[Body],
        asked: Asked,
        folder: Path,
        *,
        goal: Goal = "throughput",
    ) -> None:
        super().__init__(machines, bodies, folder, goal=goal)
        one = machines.kinds[machines.today]
        self._archive = prepared(one.loaded, variant=one.placement.name).archive
        self._asked = asked

    @contextmanager
    def reached(self, point: Point) -> Iterator[Reached]:
        one = self.machines.of(point)
        served = prepared(one.at(point), variant=one.placement.name, archive=self._archive)
        private_folder(self._folder)
        try:
            with serve_double(served, port=0, log=self._folder / "containers.log") as process:
                yielding(process.pid, entirely=True)
                yield Reached(target=container(process.url), asked=self._asked, pid=process.pid)
        except LaunchError as error:
            raise NotServed(str(error)) from None
