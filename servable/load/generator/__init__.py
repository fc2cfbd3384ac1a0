"""The load generator's processes.

They are separate because Locust patches the process that it runs in.
"""
