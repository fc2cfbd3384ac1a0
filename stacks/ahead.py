"""CDK and the rules are read side by side: CDK mostly waits for its Node.js to start.

Half a second and a third of one, of a synth of two to three. Nothing of preflight asks CDK, whose process
answers one thread; and what follows is read when both are there, by one thread again.
"""

import gc
from contextlib import suppress
from threading import Thread


def _read() -> None:
    with suppress(ImportError):  # whoever needs what is missing says so
        import infra.preflight.check  # noqa: F401


# A process of seconds: looking for circles in what is only just read is a twentieth of its time.
gc.disable()
_rules = Thread(target=_read, daemon=True)
_rules.start()
with suppress(ImportError):
    import aws_cdk  # noqa: F401
_rules.join()
