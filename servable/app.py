"""`servable-app`: the CDK app of the project in the working folder, as its cdk.json calls it.

A script and no module of the project: the working folder is not on Python's path, so that a
project's own packages `stacks` or `infra` hide none of ours.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from servable.extras import MissingExtraError
from servable.hidden import HiddenPackageError, refuse_hidden


def main() -> None:
    """Writes the assembly where the CDK CLI asks for it; 2 where it cannot begin."""
    try:
        refuse_hidden()
        if find_spec("aws_cdk") is None:
            raise MissingExtraError("servable-app", "aws_cdk", "synth")
    except (HiddenPackageError, MissingExtraError) as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(2)
    # CDK starts a Node.js: the one that was installed with it before any other.
    programs = Path(sys.executable).parent
    os.environ["PATH"] = f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    from stacks.app import synthesise  # only now: another `stacks` may have been found

    synthesise(Path.cwd())


if __name__ == "__main__":
    main()
