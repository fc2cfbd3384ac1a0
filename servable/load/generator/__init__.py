"""Load generator, in processes of its own because Locust patches the process that it is in.

Nothing outside imports this package; `servable.load.load_generator` starts it as
`python -m servable.load.generator`.
"""
