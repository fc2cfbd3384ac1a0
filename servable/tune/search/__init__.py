"""Which settings are best, in few measurements."""
