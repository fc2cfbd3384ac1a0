"""Servable's handler; two variables replace parts of it, to compare.

WAY_TO_CHOOSE: how it chooses a model server. THROUGH_GRPCIO: every call goes through grpcio. A request
with the attribute `counts` is answered with how many requests each server got.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from servable_handler.handler import Handler
from servable_handler.hooks import Hooks
from servable_handler.settings import read_settings
from servable_handler.transport import model_servers
from servable_handler.transport.server_choice import ServerChoice

counts: Counter[int] = Counter()
# Requests outstanding at each server -> the number of one. The container draws at random.
WAYS: dict[str, Callable[[Sequence[int]], int]] = {
    "random": lambda busy: random.randrange(len(busy)),
    "two choices": lambda busy: min(random.sample(range(len(busy)), 2), key=busy.__getitem__),
    "least busy": lambda busy: random.choice(
        [number for number, requests in enumerate(busy) if requests == min(busy)]
    ),
}
way = WAYS.get(os.environ.get("WAY_TO_CHOOSE", ""))


class CountedChoice(ServerChoice):
    """The server choice, with a counter, and another way to choose where one is given."""

    def take(self, avoid: int | None = None) -> int:
        number = super().take(avoid)
        counts[number] += 1
        return number

    def _number(self, now: float, avoid: int | None) -> int:
        if way is None:
            return super()._number(now, avoid)
        return way([server.outstanding for server in self._servers])


# By their names in the module that uses them: no settings of the handler, which has one way.
if "WAY_TO_CHOOSE" in os.environ:
    vars(model_servers)["ServerChoice"] = CountedChoice
if "THROUGH_GRPCIO" in os.environ:
    # A message of any size is too large for the built-in client.
    vars(model_servers)["MOST_BYTES"] = -1
whole = Handler(read_settings(os.environ), Hooks(), os.environ)


def handler(data: Any, context: Any) -> Any:
    if context.custom_attributes == "counts":
        return json.dumps(counts), "application/json"
    return whole(data, context)
