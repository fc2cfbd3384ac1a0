"""Services of moto that name EC2's backends, without EC2: nothing here asks for them.

Upstream (moto 5.2.5): SSM and ECS import all of EC2, with every instance type of every region: 0.4 s of
processor time, in every `cdk bootstrap` and wherever something scales.
"""

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import moto

_EC2 = "moto.ec2"


class _Backends:
    """EC2's, which are imported when one is asked for."""

    def __getitem__(self, account: str) -> Any:
        return importlib.import_module(f"{_EC2}.models").ec2_backends[account]


def without_ec2(module: str) -> ModuleType:
    """Import a module of moto, before there are threads that import others."""
    if _EC2 in sys.modules:
        return importlib.import_module(module)
    stand_in = ModuleType(_EC2)
    # Its exceptions are imported as they are.
    stand_in.__path__ = [str(Path(moto.__path__[0], "ec2"))]
    setattr(stand_in, "ec2_backends", _Backends())  # noqa: B010 (mypy)
    sys.modules[_EC2] = stand_in
    try:
        return importlib.import_module(module)
    finally:
        del sys.modules[_EC2]
