"""A demonstration that begins at one of its steps: `python -m tests.demo.from_step MODULE STEP ASSEMBLY`.

What STEP needs of those before it is made the short way: the stack of `cdk bootstrap`, and local/*
deployed from ASSEMBLY, which was synthesised earlier. Steps that need none of each other are left
out. From STEP on all is the demonstration's own.
"""

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import servable_local.aws
from scripts import demo_steps
from servable_local.aws import LocalAws
from tests.checkouts import bootstrapped

# Later steps need nothing of these.
LEFT_OUT = (
    "What exists now",
    "Ask the endpoint",
    "Deploy again",
    "Change one parameter",
)


def main(module: str, begin: str, assembly: str) -> None:
    run_step, running = demo_steps.step, servable_local.aws.running
    local: list[LocalAws] = []
    begun = False

    @contextmanager
    def kept(**options: Any) -> Iterator[LocalAws]:
        with running(**options) as aws:
            local.append(aws)
            yield aws

    def step(title: str, act: Callable[[], object]) -> None:
        nonlocal begun
        begun = begun or title.startswith(begin)
        if begun:
            run_step(title, act)
        elif title.startswith("Bootstrap"):
            bootstrapped(local[0])
        elif title.startswith("Deploy environments/local.toml"):
            deploy = ["deploy", "local/*", "--require-approval", "never", "--app", assembly]
            demo_steps.cdk(deploy, local[0].environment(), lambda _: None)
        elif not title.startswith(LEFT_OUT):
            act()

    vars(demo_steps)["step"] = step
    vars(servable_local.aws)["running"] = kept
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
