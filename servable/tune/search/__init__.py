"""Find the best settings in few measurements."""
