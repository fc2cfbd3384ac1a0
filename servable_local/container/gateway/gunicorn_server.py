"""Gunicorn around an application that is built already, as the image starts it."""

import os
from collections.abc import Mapping
from typing import Any

from gunicorn.app.base import BaseApplication

from servable_local.container import lifeline
from servable_local.container.events import Events
from servable_local.container.gateway import SOCKET


class Gunicorn(BaseApplication):  # type: ignore[misc]
    """`run` returns never. Its socket lies in the working folder."""

    def __init__(self, app: Any, options: Mapping[str, Any], events: Events) -> None:
        self._app, self._options, self._events = app, options, events
        super().__init__()

    def load_config(self) -> None:
        own = {
            # A name and no path: a path of more than 107 letters is no address.
            "bind": f"unix:{SOCKET}",
            "umask": 0o077,  # the socket's; 0 is Gunicorn's default
            "control_socket_disable": True,
            "when_ready": lambda server: self._events.tell(ready=True),
            "post_fork": lambda server, worker: lifeline.die_with(os.getppid()),
        }
        for name, value in (own | dict(self._options)).items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        return self._app
