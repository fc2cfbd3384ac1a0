"""What sends the load: processes of their own, for Locust patches whatever process it is in.

Nothing outside imports this package; `servable.load.load_test` starts it as
`python -m servable.load.generator`.
"""
