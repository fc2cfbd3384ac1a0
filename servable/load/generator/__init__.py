"""The load generator's processes, apart because Locust patches the process that it is in."""
