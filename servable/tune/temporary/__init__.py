"""Endpoints that exist for a measurement: named and tagged as such, within a budget, always deleted."""

from servable.tune.temporary.endpoints import (
    BudgetSpentError,
    NotInServiceError,
    TemporaryEndpoints,
)
from servable.tune.temporary.live import TemporaryError

__all__ = ["BudgetSpentError", "NotInServiceError", "TemporaryEndpoints", "TemporaryError"]
