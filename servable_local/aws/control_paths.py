"""Where the embedded AWS answers about itself. Here alone, so that asking imports no server."""

PREFIX = "/servable/"
# What a request for one of these is signed for.
SERVICE = "servable"
HEALTH_PATH = PREFIX + "health"
CLOCK_PATH = PREFIX + "clock"
TROUBLE_PATH = PREFIX + "trouble"
