"""Metric filters: lines of the container's log that are counted, and their patterns."""

import functools
from dataclasses import dataclass

from infra.catalog.table import table


@dataclass(frozen=True)
class LogFilter:
    metric: str
    pattern: str
    meaning: str


@functools.cache
def log_filters() -> tuple[LogFilter, ...]:
    """Every filter, in the order of the table."""
    rows = table("log_filters")["filters"]
    return tuple(LogFilter(metric=metric, **row) for metric, row in rows.items())
