"""Servable's handler; with THROUGH_GRPCIO, every call to the model server goes through grpcio."""

import os

from servable_handler.handler import Handler
from servable_handler.hooks import Hooks
from servable_handler.settings import read_settings
from servable_handler.transport import model_servers

if "THROUGH_GRPCIO" in os.environ:
    # A message of any size is too large for the built-in client.
    vars(model_servers)["MOST_BYTES"] = -1
handler = Handler(read_settings(os.environ), Hooks(), os.environ)
