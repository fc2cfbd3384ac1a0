"""code/inference.py: loaded once, before Gunicorn forks, with only the image's modules.

image_modules.json lists the modules of each image.
Source: python_service.py in the image's public source, see image_code.py
"""

import importlib.util
import json
import os
import platform
import re
import sys
import traceback
from collections import namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder, MetadataPathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

import falcon
import requests

from servable_local.container.http_messages import JSON
from servable_local.container.image_code import HEADER, VERSION, ImageCode

_TABLE: dict[str, Any] = json.loads(
    Path(__file__).with_name("image_modules.json").read_text(encoding="utf-8")
)


def restrict_imports(import_paths: Sequence[Path]) -> None:
    """Restrict this process, which serves an archive's code, to the image's imports.

    `import_paths`: folders that the image's start script puts on the path. Modules of ours that
    are already imported still work, but cannot be imported again.
    """
    version = _find_version()
    os.environ.setdefault(VERSION, version)
    modules = _TABLE["versions"][version]  # or the name of a list that several versions share
    finder = ImageFinder(version, _TABLE[modules] if isinstance(modules, str) else modules)
    finder.check_hidden_modules(import_paths)
    for name in list(sys.modules):
        if not finder.is_in_image(name):
            del sys.modules[name]
    sys.meta_path[:] = [cast("MetaPathFinder", finder)]
    paths = [str(path) for path in import_paths]
    sys.path[:0] = paths
    # The image overwrites it, so that what user code starts sees the same.
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)


class ImageFinder(MetaPathFinder):
    """A finder that uses the previous finders, and rejects modules that only this computer has.

    A path that is added later (code/, a model's code/lib/) is the user's: all of it is found.
    """

    def __init__(self, version: str, modules: Iterable[str]) -> None:
        self._version, self._modules = version, frozenset(modules)
        self._finders, self._own_path = list(sys.meta_path), frozenset(sys.path)

    def check_hidden_modules(self, import_paths: Sequence[Path]) -> None:
        """Raise `CodeError` for a file that the container would import instead of a module.

        The image searches code/ and code/lib/ before the standard library. This process has
        imported its modules before it knows those folders, and would never notice.
        """
        for name, module in list(sys.modules.items()):
            origin = Path(getattr(getattr(module, "__spec__", None), "origin", None) or "")
            # What is built in is imported before any search; a module in one file may be a copy.
            searched = origin.suffix == ".py" and self.is_in_image(name)
            if searched and (name in sys.stdlib_module_names or origin.name == "__init__.py"):
                for folder in import_paths:
                    if (folder / f"{name}.py").is_file():
                        problem = f"hides the module {name}, which the container's service imports"
                        raise CodeError(f"{folder.name}/{name}.py {problem}; rename it")

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module. Raises `ModuleNotFoundError` for one that only this computer has."""
        if name in _TABLE["of_the_container"]:
            print(
                f"{name} is the container's own module, which hides your {name}.py; "
                "here it has the names of values alone",
                file=sys.stderr,
            )
            return ModuleSpec(name, _ContainerModule(), origin=f"/sagemaker/{name}.py")
        # A submodule is where its package is, and that was found here.
        if path is not None or self.is_in_image(name):
            return self._find_here(name, path, target)
        users = [entry for entry in sys.path if entry not in self._own_path]
        spec = PathFinder.find_spec(name, users, target)
        if spec is not None or self._find_here(name, path, target) is None:
            return spec
        # importlib.util.find_spec checks whether the module exists: it doesn't.
        if sys._getframe(2).f_code is importlib.util.find_spec.__code__:
            return None
        raise ModuleNotFoundError(
            f"No module named {name!r} in the image of TensorFlow {self._version}, only on this "
            "computer; add its package to code/requirements.txt, and run: servable package ENV",
            name=name,
        )

    def find_distributions(self, context: DistributionFinder.Context) -> Iterator[Distribution]:
        """Find the image's packages and the user's own, for importlib.metadata."""
        for entry in context.path:
            of_entry = DistributionFinder.Context(name=context.name, path=[entry])
            for package in MetadataPathFinder.find_distributions(of_entry):
                names = _list_top_levels(package)
                if entry not in self._own_path or any(map(self.is_in_image, names)):
                    yield package

    def is_in_image(self, name: str) -> bool:
        """Return whether the top-level package of `name` is the image's, or Python's own."""
        top = name.partition(".")[0]
        in_python = top in sys.stdlib_module_names or top == "__main__"
        # Python's build writes the first, mypyc puts the second next to a package.
        generated = top.startswith("_sysconfigdata_") or top.endswith("__mypyc")
        return in_python or generated or top in self._modules

    def _find_here(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        specs = (finder.find_spec(name, path, target) for finder in self._finders)
        return next(filter(None, specs), None)


class _ContainerModule(Loader):
    """A module of the image's folder /sagemaker, which precedes code/: its values, no functions."""

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "tfs_utils":
            values = {"DEFAULT_CONTENT_TYPE": JSON, "DEFAULT_ACCEPT_HEADER": JSON}
            vars(module).update(values, CUSTOM_ATTRIBUTES_HEADER=HEADER)


def _list_top_levels(package: Distribution) -> set[str]:
    """Return the top-level modules of a distribution."""
    text = package.read_text("top_level.txt")
    return set(text.split() if text else (file.parts[0] for file in package.files or ()))


def _find_version() -> str:
    """Return the image's TensorFlow version; an unknown one counts as the newest."""
    versions = list(_TABLE["versions"])  # oldest first
    version = ".".join(os.environ.get(VERSION, "").split(".")[:2])
    return version if version in versions else versions[-1]


class Context(NamedTuple):
    """The context of a request, with the container's names and order."""

    model_name: str | None
    model_version: str | None
    method: str | None
    rest_uri: str
    grpc_port: str | None
    channel: object
    custom_attributes: str | None
    request_content_type: str
    accept_header: str
    content_length: int | None
    timeout: int


# Up to 2.19 a context has no timeout.
ContextUpTo219 = cast(Any, namedtuple)("Context", Context._fields[:-1])


Handler = Callable[[Any, Context], Any]
_PASSED_ON = (JSON, "application/jsonlines", "application/jsons", "text/csv")


class CodeError(Exception):
    """The archive's code can't serve. `str()` is a whole sentence."""


class UnsupportedTypeError(Exception):
    """A content type that isn't passed on without code: 415."""


def load_handler(inference: Path, image: ImageCode, problems: Sequence[str] = ()) -> Handler:
    """Load the handler. Raises `CodeError` for code that doesn't import or has no handler.

    `problems`: known problems of packages that this computer can't import, for a failed import.
    """
    spec = importlib.util.spec_from_file_location("inference", inference)
    assert spec is not None  # a .py file always has a spec
    assert spec.loader is not None  # and a loader
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as failure:
        traceback.print_exc()
        raise CodeError(_explain_import_failure(failure, inference.parent, problems)) from None
    if hasattr(module, "handler"):
        return cast(Handler, module.handler)
    if hasattr(module, "input_handler") and hasattr(module, "output_handler"):
        before, after = module.input_handler, module.output_handler
        return lambda data, context: after(
            _request_prediction(before(data, context), context, image), context
        )
    raise CodeError(
        "code/inference.py defines no handler; define handler(data, context), "
        "or input_handler(data, context) and output_handler(response, context)"
    )


def _explain_import_failure(failure: BaseException, code: Path, problems: Sequence[str]) -> str:
    places = [
        f"code/{Path(frame.filename).relative_to(code).as_posix()}, line {frame.lineno}; "
        for frame in traceback.extract_tb(failure.__traceback__)
        if Path(frame.filename).is_relative_to(code)
        and not Path(frame.filename).is_relative_to(code / "lib")
    ]
    # A SyntaxError names file and line itself.
    place = "" if isinstance(failure, SyntaxError) else "".join(places[-1:])
    # A module that was not found may be compiled for another Python.
    match = re.match(r"cannot import name '(\w+)' from '([\w.]+)'", str(failure))
    module = f"{match[2]}.{match[1]}" if match else str(getattr(failure, "name", None))
    if re.fullmatch(r"\w[\w.]*", module):
        for file in sorted(code.glob(f"**/{module.replace('.', '/')}.*.so"))[:1]:
            place += f"module {module}: code/{file.relative_to(code).as_posix()}; "
    sentence = (
        f"code/inference.py cannot be imported: {type(failure).__name__}: {failure} "
        f"({place}Python {platform.python_version()} of this computer, "
        f"where the image has {_TABLE['python'][_find_version()]})"
    )
    return "\n".join([sentence, *(problems if isinstance(failure, ImportError) else ())])


def build_default_handler(image: ImageCode) -> Handler:
    """Build the handler for no inference.py, which passes the text to the model server unchanged."""

    def pass_to_model_server(data: Any, context: Context) -> Any:
        media_type = context.request_content_type.split(";")[0].strip().lower()
        if image.rewritten and media_type and media_type not in _PASSED_ON:
            raise UnsupportedTypeError(f"Unsupported Media Type: {media_type}")
        answer = _request_prediction(data.read().decode(), context, image)
        return answer.content, context.accept_header

    return pass_to_model_server


def _request_prediction(body: Any, context: Context, image: ImageCode) -> requests.Response:
    """Post to the model server. Since 2.20 an unsuccessful response raises the same status."""
    timeout = context.timeout if image.rewritten else None
    answer = requests.post(context.rest_uri, data=body, timeout=timeout)
    if image.rewritten and answer.status_code != 200:
        status = falcon.code_to_http_status(answer.status_code)
        raise falcon.HTTPError(status, description=answer.content.decode(errors="replace"))
    return answer
