"""Servable's handler; WAY_TO_CHOOSE replaces how it chooses a model server, to compare.

A request with the attribute `counts` is answered with how many requests each server got.
"""

import json
import os
import random
from typing import Any

from servable_handler.handler import Handler
from servable_handler.hooks import Hooks
from servable_handler.settings import read_settings
from servable_handler.transport import model_servers
from servable_handler.transport.server_choice import ServerChoice

counts: dict[int, int] = {}
whole = Handler(read_settings(os.environ), Hooks(), os.environ)


class CountedChoice(ServerChoice):
    """The server choice, with a counter."""

    def take(self, avoid: int | None = None) -> int:
        number = super().take(avoid)
        counts[number] = counts.get(number, 0) + 1
        return number


class RandomChoice(CountedChoice):
    """By chance, as the container draws its ports."""

    def _number(self, now: float, avoid: int | None) -> int:
        return random.randrange(len(self._servers))


class TwoChoices(CountedChoice):
    """The less busy of two that are drawn."""

    def _number(self, now: float, avoid: int | None) -> int:
        two = random.sample(range(len(self._servers)), 2)
        return min(two, key=lambda number: self._servers[number].outstanding)


class LeastBusy(CountedChoice):
    """The one with the fewest requests outstanding; of equals, by chance."""

    def _number(self, now: float, avoid: int | None) -> int:
        every = range(len(self._servers))
        return min(every, key=lambda n: (self._servers[n].outstanding, random.random()))


WAYS = {
    "measured": CountedChoice,
    "random": RandomChoice,
    "two choices": TwoChoices,
    "least busy": LeastBusy,
}
if "WAY_TO_CHOOSE" in os.environ:
    # By its name in the module that makes one: no setting of the handler, which has one way.
    vars(model_servers)["ServerChoice"] = WAYS[os.environ["WAY_TO_CHOOSE"]]


def handler(data: Any, context: Any) -> Any:
    if context.custom_attributes == "counts":
        return json.dumps(counts), "application/json"
    return whole(data, context)
