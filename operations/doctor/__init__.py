"""Is this machine ready, and the account? Each look says what it saw and how to mend it."""

from operations.doctor.account import account
from operations.doctor.look import Look
from operations.doctor.machine import machine
from operations.doctor.quotas import needed

__all__ = ["Look", "account", "machine", "needed"]
