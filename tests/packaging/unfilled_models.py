"""Models that work, and models that read what nothing fills: TensorFlow and Keras write and run them.

More of Keras are in tests/exports, which asks a container.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

keras = tf.keras
v1 = tf.compat.v1
LOCAL = [v1.GraphKeys.LOCAL_VARIABLES]
Parts = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]
"""Inputs and outputs of the signature, and arguments of the builder."""


def save_sequential(folder: str) -> None:
    layers = [keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)]
    tf.saved_model.save(keras.Sequential(layers), folder)


def save_worker(folder: str) -> None:
    module = tf.Module()

    def serve(x: Any) -> dict[str, Any]:
        with tf.device("/job:worker/replica:0/task:0/device:CPU:0"):
            return {"y": x * 2}

    spec = [tf.TensorSpec([None, 2], tf.float32, name="x")]
    module.serve = tf.function(serve, input_signature=spec)
    tf.saved_model.save(module, folder, signatures=module.serve)


def save_anonymous_table(folder: str) -> None:
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(pairs(), -1, experimental_is_anonymous=True)
    spec = [tf.TensorSpec([None], tf.string, name="x")]
    module.serve = tf.function(lambda x: {"y": module.table.lookup(x)}, input_signature=spec)
    tf.saved_model.save(module, folder, signatures=module.serve)


def pairs() -> Any:
    return tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64))


def numbers() -> Any:
    return v1.placeholder(tf.float32, [None, 2], name="x")


def words() -> Any:
    return v1.placeholder(tf.string, [None], name="x")


def variable(name: str, *, local: bool = False, resource: bool = True) -> Any:
    collections = LOCAL if local else None
    one = tf.ones_initializer()
    return v1.get_variable(
        name, [2], initializer=one, collections=collections, use_resource=resource
    )


def local_variable(resource: bool) -> Parts:
    x, w, other = numbers(), variable("w", local=True, resource=resource), variable("o")
    return {"x": x}, {"y": x * w + other}, {}


def local_with_initializer() -> Parts:
    x, w = numbers(), variable("w", local=True)
    return {"x": x}, {"y": x * w}, {"main_op": v1.local_variables_initializer()}


def assigned_by_a_signature(add: bool) -> Parts:
    x, w, other = numbers(), variable("w", local=True), variable("o")
    change = w.assign_add if add else w.assign
    with tf.control_dependencies([change(tf.reduce_sum(x, 0))]):
        return {"x": x}, {"y": w.read_value() * other}, {}


def captured_by_a_function() -> Parts:
    x, w, other = numbers(), variable("w", local=True), variable("o")
    return {"x": x}, {"y": tf.function(lambda a: a * w * other)(x)}, {}


def table(main_op: bool) -> Parts:
    x, looked = words(), tf.lookup.StaticHashTable(pairs(), -1)
    given = {"main_op": v1.tables_initializer()} if main_op else {}
    return {"x": x}, {"y": looked.lookup(x)}, given


def legacy_table() -> Parts:
    x, looked = words(), tf.lookup.StaticHashTable(pairs(), -1)
    return {"x": x}, {"y": looked.lookup(x)}, {"legacy_init_op": v1.tables_initializer()}


def second_table() -> Parts:
    x, first = words(), tf.lookup.StaticHashTable(pairs(), -1)
    main_op = v1.tables_initializer()
    second = tf.lookup.StaticHashTable(pairs(), -2)
    return {"x": x}, {"y": first.lookup(x), "z": second.lookup(x)}, {"main_op": main_op}


def table_in_a_loop() -> Parts:
    x, looked = words(), tf.lookup.StaticHashTable(pairs(), -1)
    return {"x": x}, {"y": tf.map_fn(looked.lookup, x, fn_output_signature=tf.int64)}, {}


def mutable_table() -> Parts:
    x, other = words(), variable("o")
    looked = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, -1.0)
    return {"x": x}, {"y": looked.lookup(x) + other[0]}, {}


def placeholder(default: bool) -> Parts:
    x, w = numbers(), variable("w")
    rate = v1.placeholder_with_default(1.0, []) if default else v1.placeholder(tf.float32, [])
    return {"x": x}, {"y": x * w * rate}, {}


def placeholder_of_initialization() -> Parts:
    x, w, first = numbers(), variable("w"), v1.placeholder(tf.float32, [2])
    return {"x": x}, {"y": x * w}, {"main_op": v1.group(w.assign(first))}


def iterator(main_op: bool) -> Parts:
    data = tf.data.Dataset.from_tensors(tf.ones([2])).repeat()
    x, rows = numbers(), v1.data.make_initializable_iterator(data)
    return {"x": x}, {"y": x + rows.get_next()}, {"main_op": rows.initializer} if main_op else {}


def worker_beside() -> Parts:
    x = numbers()
    with tf.device("/job:ps/task:0"):
        tf.negative(tf.constant(1.0))
    return {"x": x}, {"y": x * 2}, {}


def scratch_queue() -> Parts:
    x, queue = numbers(), tf.queue.FIFOQueue(2, [tf.float32], shapes=[[2]])
    with tf.control_dependencies([queue.enqueue(x[0])]):
        return {"x": x}, {"y": queue.dequeue()}, {}


FAULTY: dict[str, Callable[[str], None] | Callable[[], Parts]] = {
    "sequential": save_sequential,
    "worker": save_worker,
    "anonymous table": save_anonymous_table,
    "local variable": lambda: local_variable(True),
    "local variable by reference": lambda: local_variable(False),
    "signature adds": lambda: assigned_by_a_signature(True),
    "captured": captured_by_a_function,
    "table": lambda: table(False),
    "second table": second_table,
    "table in a loop": table_in_a_loop,
    "placeholder": lambda: placeholder(False),
    "placeholder of initialization": placeholder_of_initialization,
    "iterator": lambda: iterator(False),
    "worker beside": worker_beside,
}
GOOD: dict[str, Callable[[str], None] | Callable[[], Parts]] = {
    "local with initializer": local_with_initializer,
    "signature assigns first": lambda: assigned_by_a_signature(False),
    "table": lambda: table(True),
    "legacy table": legacy_table,
    "mutable table": mutable_table,
    "placeholder with default": lambda: placeholder(True),
    "iterator": lambda: iterator(True),
    "scratch queue": scratch_queue,
}


def write(make: Any, folder: Path) -> None:
    if make.__code__.co_argcount:
        make(str(folder))
        return
    with tf.Graph().as_default(), v1.Session() as session:
        inputs, outputs, given = make()
        if v1.global_variables():
            session.run(v1.global_variables_initializer())
        signature = v1.saved_model.predict_signature_def(inputs, outputs)
        builder = v1.saved_model.Builder(str(folder))
        signatures = {"serving_default": signature}
        builder.add_meta_graph_and_variables(session, ["serve"], signatures, **given)
        builder.save()


def serves(folder: Path) -> bool:
    """Whether a session that restores and initializes the model computes its outputs."""
    with tf.Graph().as_default(), v1.Session() as session:
        try:
            loaded = v1.saved_model.load(session, ["serve"], str(folder))
            signature = loaded.signature_def["serving_default"]
            feed = {}
            for tensor in signature.inputs.values():
                sizes = [max(size.size, 1) for size in tensor.tensor_shape.dim]
                dtype = tf.dtypes.as_dtype(tensor.dtype)
                value = b"a" if dtype == tf.string else 0
                feed[tensor.name] = np.full(sizes, value, dtype.as_numpy_dtype)
            session.run([tensor.name for tensor in signature.outputs.values()], feed)
        except tf.errors.OpError:
            return False
    return True
