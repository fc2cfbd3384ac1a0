"""Kinds of options that a load test has."""

import re
from typing import Any

import click


class Loads(click.ParamType[Any]):
    """1,2,4 or 50.5: numbers above 0."""

    name = "numbers"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[float, ...]:
        try:
            found = tuple(float(one) for one in str(value).split(","))
        except ValueError:
            found = ()
        if not found or not all(0 < one < float("inf") for one in found):
            self.fail(f"{value!r}: write numbers above 0 with commas between, as 1,2,4", param, ctx)
        return found


class Address(click.ParamType[Any]):
    """HOST:PORT"""

    name = "host:port"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, int]:
        if isinstance(value, tuple):
            return value
        found = re.fullmatch(r"(.+):(\d{1,5})", str(value))
        if not found or int(found[2]) > 65535:
            self.fail(f"{value!r}: write HOST:PORT, as 10.0.0.5:5557", param, ctx)
        return found[1], int(found[2])
