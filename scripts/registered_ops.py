"""Lists what one TensorFlow registers, in its own process: two don't fit into one.

    python -m scripts.registered_ops FOLDER

FOLDER contains TensorFlow's C++ libraries, the graphs to run (*.graph), and the libraries to load
in addition (added-*.so); the results are written there.
"""

import ctypes
import sys
from pathlib import Path

LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")
# Kernels that older wheels have in libraries of their own.
KERNELS = "libtfkernel_*.so"


class _Buffer(ctypes.Structure):
    """The struct TF_Buffer of tensorflow/c/tf_buffer.h."""

    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("free", ctypes.c_void_p))


class _Output(ctypes.Structure):
    """The struct TF_Output of tensorflow/c/c_api.h."""

    _fields_ = (("operation", ctypes.c_void_p), ("index", ctypes.c_int))


class _Library:
    """The C API of the TensorFlow in a folder. Source: tensorflow/c/c_api.h"""

    def __init__(self, folder: Path) -> None:
        for library in LIBRARIES:
            self._c = ctypes.CDLL(str(folder / library), ctypes.RTLD_GLOBAL)
        pointers = "Status Graph SessionOptions Session ImportGraphDefOptions BufferFromString"
        for name in pointers.split():
            getattr(self._c, f"TF_New{name}").restype = ctypes.c_void_p
        for name in ("TF_GetAllOpList", "TF_GetAllRegisteredKernels"):
            getattr(self._c, name).restype = ctypes.POINTER(_Buffer)
        self._c.TF_Message.restype = ctypes.c_char_p
        self._c.TF_GraphOperationByName.restype = ctypes.c_void_p
        self._c.TF_LoadLibrary.restype = ctypes.c_void_p
        self._status = ctypes.c_void_p(self._c.TF_NewStatus())
        for kernels in sorted(folder.glob(KERNELS)):
            self.load(kernels)

    def list_registered(self) -> tuple[bytes, bytes]:
        """Return the serialized OpList and KernelList."""
        found = (self._c.TF_GetAllOpList(), self._c.TF_GetAllRegisteredKernels(self._status))
        ops, kernels = (ctypes.string_at(one[0].data, one[0].length) for one in found)
        return ops, kernels

    def load(self, library: Path) -> None:
        self._c.TF_LoadLibrary(str(library).encode(), self._status)
        if message := self._message():
            raise RuntimeError(f"{library.name}: {message}")

    def run_graph(self, graph: bytes) -> str:
        """Run the node "x" of a graph, and return TensorFlow's error message, or ""."""
        c, status = self._c, self._status
        whole = ctypes.c_void_p(c.TF_NewGraph())
        buffer = ctypes.c_void_p(c.TF_NewBufferFromString(graph, ctypes.c_size_t(len(graph))))
        options = ctypes.c_void_p(c.TF_NewImportGraphDefOptions())
        c.TF_GraphImportGraphDef(whole, buffer, options, status)
        if message := self._message():
            return message
        session = c.TF_NewSession(whole, ctypes.c_void_p(c.TF_NewSessionOptions()), status)
        fetched = _Output(c.TF_GraphOperationByName(whole, b"x"), 0)
        value, none = ctypes.c_void_p(), None
        c.TF_SessionRun(
            ctypes.c_void_p(session), none, none, none, 0, ctypes.byref(fetched),
            ctypes.byref(value), 1, none, 0, none, status,
        )  # fmt: skip
        return self._message()

    def _message(self) -> str:
        return str(self._c.TF_Message(self._status).decode())


def write_registered(folder: Path) -> None:
    """Write what TensorFlow registers, the graphs' results, and what added-*.so register."""
    library = _Library(folder)
    for name, body in zip(("ops", "kernels"), library.list_registered(), strict=True):
        (folder / name).write_bytes(body)
    for graph in sorted(folder.glob("*.graph")):
        graph.with_suffix(".answer").write_text(library.run_graph(graph.read_bytes()))
    for added in sorted(folder.glob("added-*.so")):
        library.load(added)
    for name, body in zip(("all-ops", "all-kernels"), library.list_registered(), strict=True):
        (folder / name).write_bytes(body)


if __name__ == "__main__":
    write_registered(Path(sys.argv[1]))
