"""A demonstration that begins at one of its steps: `python -m tests.demo.from_step STEP ASSEMBLY [-v]`.

What STEP needs of those before it is made the short way: the stack of `cdk bootstrap`, and local/*
deployed from ASSEMBLY, which was synthesised earlier. From STEP on all is the demonstration's own.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from scripts import demo
from servable_local.aws import LocalAws, running
from tests.checkouts import ROOT, bootstrapped, run_in


def main(begin: str, assembly: str, *_: str) -> None:
    titles = [step.title for step in demo.STEPS]
    first = next((n for n, title in enumerate(titles) if title.startswith(begin)), 0)

    @contextmanager
    def prepared() -> Iterator[LocalAws]:
        with running() as aws:
            if first > 0:
                bootstrapped(aws)
                deploy = [*demo.DEPLOY.split(), "--app", assembly]
                run_in(ROOT, *deploy, environment=aws.environment_over(os.environ))
            yield aws

    vars(demo).update(STEPS=demo.STEPS[first:], running=prepared)
    demo.main()


if __name__ == "__main__":
    main(*sys.argv[1:])
