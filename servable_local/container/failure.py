"""Why an endpoint does not start."""


class StartError(Exception):
    """`str()` is a whole sentence."""
