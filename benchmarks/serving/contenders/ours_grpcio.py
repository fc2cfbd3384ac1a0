"""Servable's handler with every call through grpcio, to compare with its own small calls."""

import os
from typing import Any

from servable_handler.handler import Handler
from servable_handler.hooks import Hooks
from servable_handler.settings import read_settings
from servable_handler.transport import model_servers

# A message of any size is too large for the built-in client: no setting of the handler.
vars(model_servers)["MOST_BYTES"] = -1
whole = Handler(read_settings(os.environ), Hooks(), os.environ)


def handler(data: Any, context: Any) -> Any:
    return whole(data, context)
