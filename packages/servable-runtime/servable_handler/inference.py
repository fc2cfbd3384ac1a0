"""The code/inference.py that the container loads, next to transforms.py and the packages.

The packages are the handler's. Gunicorn's master imports this module once before it forks, with
its folder on the path. It reads its settings and the user's hooks, and opens no connection. In
multi-model mode every worker imports it once for each model into one process, and only code/lib/
of the models is on the path.
Source: python_service.py and serve.py in the image's public source,
https://github.com/aws/deep-learning-containers (scripts/docker/tensorflow/inference/sagemaker)
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def isolate_modules(folder: Path) -> Iterator[None]:
    """Make the modules of `folder` importable in the block, and none of another model's.

    It does nothing if `folder` is on the path already, as with a single model. Otherwise the
    modules are removed from `sys.modules` after the block, so that the next model imports its
    own, which may be another version of this handler; importers keep theirs. An import inside a
    function that first runs with a request no longer finds them.
    """
    if str(folder) in sys.path:
        yield
        return
    # Modules and packages; lib/ is the models' in common, as the image has it.
    names = {
        entry.stem
        for entry in folder.iterdir()
        if entry.suffix == ".py" or (entry.name != "lib" and any(entry.glob("*.py")))
    }

    def remove_modules() -> dict[str, ModuleType]:
        own = [name for name in sys.modules if name.partition(".")[0] in names]
        return {name: sys.modules.pop(name) for name in own}

    # The same lock for every model of the process: workers with threads load two at once.
    lock: threading.RLock = vars(sys).setdefault("_servable_loading", threading.RLock())
    with lock:
        others = remove_modules()
        sys.path.insert(0, str(folder))
        try:
            yield
        finally:
            sys.path.remove(str(folder))
            remove_modules()
            sys.modules.update(others)


_FOLDER = Path(__file__).parent
with isolate_modules(_FOLDER):
    from servable_handler.handler import Handler
    from servable_handler.hooks import load_hooks
    from servable_handler.settings import read_settings

    handler = Handler(read_settings(os.environ), load_hooks(_FOLDER), os.environ)
