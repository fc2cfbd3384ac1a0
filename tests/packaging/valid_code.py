"""Unusual code folders that the container runs, gathered from real threads and from Python's reference.

Name -> (inference.py without a handler of its own, other files). `HANDLER` is added where it has none.
"""

HANDLER = "def handler(data, context):\n    return data.read(), context.accept_header\n"

VALID: dict[str, tuple[str, dict[str, str]]] = {
    "a fallback import": (
        "try:\n    import orjson as json\nexcept ImportError:\n    import json\nX = json.dumps({})\n",
        {},
    ),
    "an optional import used behind a test": (
        "try:\n    import torch\nexcept ImportError:\n    torch = None\nGPU = torch is not None\n",
        {},
    ),
    "an import under else": (
        "try:\n    import orjson\nexcept ImportError:\n    FAST = False\nelse:\n    FAST = bool(orjson)\n",
        {},
    ),
    "a star import": ("from shared import *\nX = scale(1)\n", {"shared.py": "def scale(x): return x\n"}),
    "a star import with __all__": (
        "from shared import *\nX = scale(1)\n",
        {"shared.py": "__all__ = ['scale']\ndef scale(x): return x\n"},
    ),
    "__all__ that is added to": (
        "from shared import a\nX = a\n",
        {"shared.py": "__all__ = ['a']\n__all__ += ['b']\na = b = 1\n"},
    ),
    "a relative import in a package": (
        "from features import scaled\nX = scaled\n",
        {"features/__init__.py": "from .scale import scaled\n", "features/scale.py": "scaled = 1\n"},
    ),
    "a relative import of a package": (
        "from features.deep import a\nX = a.Y\n",
        {
            "features/__init__.py": "",
            "features/deep/__init__.py": "",
            "features/deep/a.py": "from .. import b\nY = b.Z\n",
            "features/b.py": "Z = 1\n",
        },
    ),
    "a namespace package": (
        "from features import scale\nimport features.scale as again\nX = scale.Y + again.Y\n",
        {"features/scale.py": "Y = 1\n"},
    ),
    "a submodule through its package": (
        "import features.scale\nX = features.scale.Y\n",
        {"features/__init__.py": "", "features/scale.py": "Y = 1\n"},
    ),
    "names made with globals()": ("globals().update({'SIZE': 3})\nX = SIZE\n", {}),
    "names made with exec": ("exec('SIZE = 3')\nX = SIZE\n", {}),
    "a name made with exec in another module": (
        "import shared\nX = shared.SIZE\n",
        {"shared.py": "exec('SIZE = 3')\n"},
    ),
    "a name that is set on a module": (
        "import shared\nshared.cache = {}\nX = shared.cache\n",
        {"shared.py": ""},
    ),
    "a module with __getattr__": (
        "from shared import anything\nX = anything\n",
        {"shared.py": "def __getattr__(name): return 1\n"},
    ),
    "a global that a function defines": (
        "from shared import load\nload()\nimport shared\nX = shared.MODEL\n",
        {"shared.py": "def load():\n    global MODEL\n    MODEL = 1\n"},
    ),
    "a module that is asked with hasattr": (
        "import shared\nX = shared.FAST if hasattr(shared, 'FAST') else 1\n",
        {"shared.py": ""},
    ),
    "types for checkers alone": (
        "from __future__ import annotations\nfrom typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from tensorflow import Tensor\ndef f(x: Tensor) -> Tensor: return x\n",
        {},
    ),
    "an annotation that is never evaluated": (
        "from __future__ import annotations\ndef f(data: Stream) -> Body: return data\n",
        {},
    ),
    "an annotation as a string": ("def f(data: 'Stream') -> 'list[Body]': return data\n", {}),
    "an annotation of a local variable": ("def f(x):\n    y: Rows = x\n    return y\n", {}),
    "a forward reference": (
        "from typing import Optional, cast\nclass A:\n    n: Optional['A'] = None\nX = cast('B', A())\n",
        {},
    ),
    "nested functions and nonlocal": (
        "def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1\n        return n\n    return g\n",
        {},
    ),
    "comprehension scopes": ("X = [y for x in range(3) for y in range(x) if (z := y)]\nY = z\n", {}),
    "a walrus in a test": ("import re\nif (m := re.match('a', 'b')) is not None:\n    X = m\n", {}),
    "match": (
        "def f(x):\n    match x:\n        case {'a': a, **rest}: return a, rest\n"
        "        case [b, *c]: return b, c\n        case str() as d: return d\n        case _: return None\n",
        {},
    ),
    "decorators": (
        "import functools\ndef timed(f):\n    @functools.wraps(f)\n    def g(*a, **k): return f(*a, **k)\n"
        "    return g\n@timed\ndef handler(data, context):\n    return data.read(), 'text/plain'\n",
        {},
    ),
    "a handler that is a partial": (
        "import functools\ndef answer(size, data, context): return data.read(size), 'text/plain'\n"
        "handler = functools.partial(answer, 3)\n",
        {},
    ),
    "a handler that is a method": (
        "class S:\n    def call(self, data, context): return data.read(), 'text/plain'\nhandler = S().call\n",
        {},
    ),
    "a handler from another module": ("from serving import handler\n", {"serving.py": HANDLER}),
    "del": ("for i in range(3):\n    pass\ndel i\n", {}),
    "a name of the round before": (
        "def f(rows):\n    for n, row in enumerate(rows):\n        if n:\n            print(last)\n"
        "        last = row\n",
        {},
    ),
    "builtins": ("X = __file__, __name__, __doc__, __spec__, NotImplemented, Ellipsis, __debug__\n", {}),
    "async helpers": ("import asyncio\nasync def f():\n    async with g() as x:\n        return x\n"
        "def g(): ...\nX = asyncio.iscoroutinefunction(f)\n", {}),
    "class scopes": ("class A:\n    x = 1\n    y = [x for _ in range(2)] if False else x\n"
        "    def f(self): return __class__\n", {}),
    "a conditional definition": (
        "import sys\nif sys.version_info >= (3, 12):\n    from itertools import batched\nelse:\n"
        "    def batched(x, n): ...\nX = batched\n",
        {},
    ),
    "Python 2 beside Python 3": (
        "import sys\nif sys.version_info[0] < 3:\n    text = unicode\nelse:\n    text = str\n",
        {},
    ),
    "a test of a name": ("try:\n    unicode\nexcept NameError:\n    unicode = str\n", {}),
    "a test of a name by any failure": ("try:\n    X = profile\nexcept Exception:\n    X = None\n", {}),
    "work for main": (
        "if __name__ == '__main__':\n    import tensorflow as tf\n    print(tf, open('a.txt'), undefined)\n",
        {},
    ),
    "an answer to being run as a program": (
        "import os\nif __name__ != '__main__':\n    X = 1\nelse:\n    X = os.environ['NOWHERE']\n",
        {},
    ),
    "type parameters": ("def first[T](rows: list[T]) -> T: return rows[0]\nclass Rows[K, *V]: ...\n", {}),
    "a path beside the code": (
        "from pathlib import Path\nX = Path(__file__).with_name('v.txt').read_text()\n"
        "Y = (Path(__file__).resolve().parent / 'data' / 'w.txt').open()\n",
        {"v.txt": "", "data/w.txt": ""},
    ),
    "a path with os.path": (
        "import os\nHERE = os.path.dirname(os.path.realpath(__file__))\n"
        "X = open(os.path.join(HERE, 'v.txt'))\nY = open(f'{HERE}/v.txt')\nZ = open(HERE + '/v.txt')\n",
        {"v.txt": ""},
    ),
    "the path of the container": ("X = open('/opt/ml/model/code/v.txt')\n", {"v.txt": ""}),
    "files that are written first": (
        "with open('/tmp/a', 'w') as f: f.write('')\nX = open('/tmp/a')\n"
        "open('b', 'w').close()\n",
        {},
    ),
    "a file that is fetched first": (
        "import boto3\nboto3.client('s3').download_file('bucket', 'key', 'v.txt')\nX = open('v.txt')\n",
        {},
    ),
    "a folder that is changed first": ("import os\nos.chdir('/opt/ml/model/code')\nX = open('v.txt')\n", {}),
    "a file that may be missing": (
        "try:\n    X = open('v.txt')\nexcept FileNotFoundError:\n    X = None\n",
        {},
    ),
    "a file that is looked for": (
        "import os\nif os.path.exists('v.txt'):\n    X = open('v.txt')\n",
        {},
    ),
    "a stream that is opened": (
        "import gzip, io\nimport numpy as np\ndef f(x): return gzip.open(io.BytesIO(x)), np.load(io.BytesIO(x))\n",
        {},
    ),
    "variables with a default": (
        "import os\nA = os.environ.get('TABLE', 'x')\nB = os.getenv('OTHER')\n"
        "C = os.environ['THIRD'] if 'THIRD' in os.environ else ''\n",
        {},
    ),
    "a variable that is set first": (
        "import os\nos.environ['TABLE'] = 'x'\nos.environ.setdefault('B', 'y')\n"
        "X = os.environ['TABLE'] + os.environ['B'] + os.environ['AWS_REGION'] + os.environ['PATH']\n",
        {},
    ),
    "a variable whose lack is caught": (
        "import os\ntry:\n    X = os.environ['TABLE']\nexcept KeyError:\n    X = None\n",
        {},
    ),
    "an address for a laptop": (
        "def handler(data, context):\n    uri = getattr(context, 'rest_uri', None)\n"
        "    uri = context.rest_uri or 'http://localhost:8501/v1/models/m:predict'\n"
        "    return uri, 'text/plain'\n",
        {},
    ),
    "an address in a docstring": ('"""Call http://localhost:8501/v1/models/m:predict by hand."""\n', {}),
    "the image's own module": ("import tfs_utils\nX = tfs_utils.DEFAULT_CONTENT_TYPE\n", {}),
    "modules named as seldom ones of Python": (
        "import statistics, test, calculator\nX = statistics.Y, test.Z, calculator.W\n",
        {"statistics.py": "Y = 1\n", "test.py": "Z = 1\n", "calculator.py": "W = 1\n"},
    ),
    "a folder without __init__ named as a module": ("", {"json/schema.txt": "", "types/a.txt": ""}),
    "a copy of a package": (
        "import requests\nX = requests.post\n",
        {
            "requests/__init__.py": "from .api import post\n",
            "requests/api.py": "def post(): ...\n",
            "requests/models.py": "",
        },
    ),
    "a module that is copied from six": ("import six\nX = six.PY3\n", {"six.py": "PY3 = True\n"}),
    "an early answer with a status": (
        "import falcon\ndef handler(data, context):\n    if context.content_length == 0:\n"
        "        raise falcon.HTTPBadRequest(title='empty')\n    return data.read(), 'text/plain'\n",
        {},
    ),
    "a pair that another function makes": (
        "def answer(data): return data.read(), 'text/plain'\n"
        "def handler(data, context):\n    body, content_type = answer(data)\n    return body, content_type\n",
        {},
    ),
    "the pair as one value": (
        "def handler(data, context):\n    answer = (data.read(), context.accept_header)\n    return answer\n",
        {},
    ),
    "a stream that is copied": (
        "import io\ndef handler(data, context):\n    data = io.BytesIO(data.read())\n"
        "    return data.getvalue(), 'application/json'\n",
        {},
    ),
    "JSON of a stream": (
        "import json\ndef handler(data, context):\n    rows = json.load(data)\n"
        "    return json.dumps(rows['instances']), 'application/json'\n",
        {},
    ),
    "an answer's text as the body": (
        "import requests\ndef handler(data, context):\n"
        "    r = requests.post(context.rest_uri, data=data.read())\n    return r.text, 'application/json'\n",
        {},
    ),
    "formats": ("X = '%s' % 'a', '%(a)s' % {'a': 1}, '{} {}'.format(*range(2)), '%s %s' % tuple('ab')\n", {}),
    "a body named content type": (
        "def input_handler(data, context):\n    return data.read()\n"
        "def output_handler(response, context):\n    accept = context.accept_header\n"
        "    return response.content, accept\n",
        {},
    ),
    "a lambda": ("handler = lambda data, context: (data.read(), 'text/plain')\n", {}),
    "a module's names in try": (
        "import shared\ntry:\n    X = shared.FAST\nexcept AttributeError:\n    X = None\n",
        {"shared.py": ""},
    ),
    "a parameter named as a module": (
        "import shared\ndef f(shared): return shared.anything\nX = shared.A\n",
        {"shared.py": "A = 1\n"},
    ),
    "a package that lends names of its modules": (
        "from features import Scaler\nX = Scaler\n",
        {
            "features/__init__.py": "from .a import *\n",
            "features/a.py": "class Scaler: ...\n",
        },
    ),
    "a circle of modules": (
        "import a\nX = a.f\n",
        {"a.py": "import b\ndef f(): return b.g()\n", "b.py": "import a\ndef g(): return a.f\n"},
    ),
}
# requirements.txt that ask for nothing, or with more than names.
REQUIREMENTS = {
    "comments alone": "# nothing yet\n\n",
    "an index alone": "--index-url https://pypi.org/simple\n",
    "empty": "",
}
