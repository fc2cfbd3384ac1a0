"""Endpoints that exist for a measurement: named and tagged as such, within a budget, always deleted."""

from tuning.temporary.endpoints import BudgetSpent, NotInService, TemporaryEndpoints
from tuning.temporary.live import TemporaryError

__all__ = ["BudgetSpent", "NotInService", "TemporaryEndpoints", "TemporaryError"]
