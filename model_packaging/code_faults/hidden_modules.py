"""Files of the code folder that hide modules of the container, or are hidden by them.

The container runs `python3 /sagemaker/python_service.py` with code/ and code/lib/ as PYTHONPATH, so
that a module is searched in /sagemaker, code/, code/lib/, the standard library, and the packages.
Source: https://github.com/aws/deep-learning-containers (at e0ecede, 2026-08-21), serve.py and
python_service.py in scripts/docker/tensorflow/inference/sagemaker
"""

import ast
import sys
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path

from model_packaging.handler_functions import CodeFinding
from model_packaging.python_source import top_level_names

# In /sagemaker; and what Python has imported, from its own executable, before it searches anywhere.
IMAGE_MODULES = frozenset({"multi_model_utils", "python_service", "serve", "tfs_utils"})
_FIRST = IMAGE_MODULES | {"abc", "codecs", "errno", "gc", "io", "itertools", "os", "site", "stat"}
_FIRST |= {"atexit", "builtins", "marshal", "posix", "posixpath", "sys", "time", "zipimport"}
# sys.modules of gevent, falcon, grpc, gunicorn and requests after what python_service.py imports and
# one request (Python 3.11, 2026-11-24); then what the packages of the image import besides.
_OF_THE_SERVICE = """
argparse array ast asyncio base64 binascii bisect bz2 calendar cgi collections concurrent contextlib
contextvars copy copyreg csv dataclasses datetime dis email encodings enum fcntl fnmatch functools gettext
glob grp hashlib heapq hmac html http importlib inspect ipaddress json keyword linecache locale logging lzma
math mimetypes multiprocessing netrc opcode operator pathlib pickle platform queue quopri random re reprlib
select selectors shlex shutil signal socket socketserver ssl string stringprep struct subprocess tempfile
textwrap threading token tokenize traceback types typing unicodedata urllib uuid warnings weakref xml zipfile
zlib certifi charset_normalizer falcon gevent greenlet grpc gunicorn idna packaging requests urllib3 zope
"""
_OF_PACKAGES = {
    "numpy": "ctypes numbers secrets",
    "scipy": "ctypes numbers numpy secrets",
    "pandas": "cmath ctypes dateutil decimal gzip mmap numbers numpy secrets tarfile zoneinfo",
    "sklearn": "ctypes decimal gzip joblib mmap numbers numpy scipy secrets tarfile",
    "boto3": "botocore configparser dateutil decimal getpass gzip jmespath s3transfer secrets",
    "google": "numbers",
}
_FEW_FILES = 3  # of a package: a copy of a published one has more


def hidden_by(module: str) -> str | None:
    """The module that code gets when it imports one of its own of that name; None for its own."""
    top = module.partition(".")[0]
    if top not in _FIRST:
        return None
    return f"the container's own {top}.py" if top in IMAGE_MODULES else f"Python's own {top}"


def hiding_files(folder: Path, imported: Collection[str]) -> Iterator[CodeFinding]:
    """Modules of code/ and code/lib/ that the service, or a package that is `imported`, would get."""
    users = dict.fromkeys(_OF_THE_SERVICE.split(), "the container's service")
    for package in sorted(_OF_PACKAGES.keys() & set(imported)):
        users = dict.fromkeys(_OF_PACKAGES[package].split(), package) | users
    for place in (folder, folder / "lib"):
        for path in sorted(place.iterdir()) if place.is_dir() else ():
            file = path / "__init__.py" if path.is_dir() else path
            is_module = path.stem in users and file.suffix == ".py" and file.is_file()
            if is_module and not _is_copy(path.stem, file):
                problem = f"hides the module {path.stem} that {users[path.stem]} imports"
                yield CodeFinding(file, 1, problem, "rename it")


def _is_copy(name: str, file: Path) -> bool:
    """Whether the file is the module itself, or a backport of it."""
    if name not in sys.stdlib_module_names:
        return file.name == "__init__.py" and len(list(file.parent.rglob("*.py"))) >= _FEW_FILES
    spec = find_spec(name)
    try:
        ours = top_level_names(ast.parse(file.read_bytes()))
        original = top_level_names(ast.parse(Path((spec and spec.origin) or "").read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False  # a module of C
    public = {public for public in original if not public.startswith("_")}
    return 2 * len(public & ours) > len(public)
