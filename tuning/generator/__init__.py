"""What sends the load: processes of their own, for Locust patches whatever process it is in.

Nothing outside imports this package; `tuning.load_test` starts it as `python -m tuning.generator`.
"""
