"""The app of this repository, which is one project among others: elsewhere it is `servable-app`."""

from pathlib import Path

from stacks.app import synthesise

synthesise(Path(__file__).resolve().parent)
