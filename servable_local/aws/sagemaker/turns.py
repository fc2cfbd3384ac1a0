"""Who is next, in proportion to weights: the same order every time, and evenly mixed.

Smooth weighted round robin, as NGINX has it: everybody gains their weight each turn, the
richest goes and pays the sum. With weights 3 and 1: a a b a.
"""

import threading
from collections.abc import Mapping


class Turns:
    """AWS draws lots; taking turns gives the same shares, and a test the same answer."""

    def __init__(self) -> None:
        self._credit: dict[str, float] = {}
        self._lock = threading.Lock()

    def next(self, weights: Mapping[str, float]) -> str:
        """One of `weights`, which may differ from call to call. All zero counts as all equal."""
        if not any(weight > 0 for weight in weights.values()):
            weights = dict.fromkeys(weights, 1.0)
        with self._lock:
            credit = {
                name: self._credit.get(name, 0.0) + weight for name, weight in weights.items()
            }
            able = [name for name in credit if weights[name] > 0]
            chosen = max(able, key=lambda name: credit[name])
            credit[chosen] -= sum(weights.values())
            self._credit = credit
            return chosen
