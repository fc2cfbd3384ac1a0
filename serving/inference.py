"""What the container loads: code/inference.py, beside the package `serving` and transforms.py.

Imported once in Gunicorn's master, before it forks: reads its settings and the user's hooks,
opens nothing.
"""

import os

from serving.handler import Handler
from serving.hooks import load_hooks
from serving.settings import read_settings

handler = Handler(read_settings(os.environ), load_hooks(), os.environ)
