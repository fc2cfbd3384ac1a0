"""The CDK app of this repository. Other projects use the command `servable-app` instead."""

from pathlib import Path

from stacks.app import synthesise

synthesise(Path(__file__).resolve().parent)
