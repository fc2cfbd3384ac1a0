"""What the container loads: code/inference.py, beside the package `serving` and transforms.py.

Imported once in Gunicorn's master, before it forks: reads its settings and the user's hooks,
opens nothing.
"""

import os

from servable_handler.handler import Handler
from servable_handler.hooks import load_hooks
from servable_handler.settings import read_settings

handler = Handler(read_settings(os.environ), load_hooks(), os.environ)
