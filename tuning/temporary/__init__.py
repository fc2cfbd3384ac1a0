"""Endpoints that exist for a measurement: named and tagged as such, within a budget, always deleted."""

from tuning.temporary.endpoints import BudgetSpent, TemporaryEndpoints, TemporaryError

__all__ = ["BudgetSpent", "TemporaryEndpoints", "TemporaryError"]
