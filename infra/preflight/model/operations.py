"""Rules about the operations of a model's graph, which the image's TensorFlow must support."""

from dataclasses import replace

from infra.catalog.images import op_table
from infra.packing import variants_running
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.parameters.sources import shown_path
from infra.policy.container import is_upstream
from infra.preflight.rule import Findings, Parts, Rule
from model_packaging.refusal import PackagingError


class GraphRule(Rule):
    """A rule about the graph of a model that is packed here and runs in AWS's image.

    The operations of your own images, and of images before TensorFlow 2.12, are not known.
    """

    acknowledgeable = True

    def parts(self) -> Parts:
        for name in self.environment.models:
            running = [variant.model for variant in variants_running(self.environment, name)]
            for placement in self.candidate.containers:
                if placement.variant.model in running and placement.model.image is None:
                    yield name, placement

    def look(self, name: str, placement: Placement) -> Findings:
        key, cpu = f"models.{name}.saved_model", not placement.instance.gpus
        folders, table = self.candidate.version_folders(name), op_table(placement.tensorflow)
        if not folders:
            return
        if table is None:
            older = f"the operations of {placement.tensorflow} are not known"
            question = "whether the image runs the model's operations"
            yield self.not_checked(key, f"a TensorFlow from 2.12 on: {older}", question)
            return
        for folder in folders:
            try:
                faults = self.candidate.graph_faults(folder, table, cpu=cpu)
            except (PackagingError, OSError):
                continue  # the rule SavedModel reports it
            shown = shown_path(folder, self.loaded.root)
            for fault in faults:
                if fault.rule == self.id:
                    finding = self.finding(
                        key,
                        f"{shown}/saved_model.pb: {fault.problem}",
                        given=fault.given,
                        allowed=fault.allowed,
                        remedy=fault.remedy.replace("models.NAME", f"models.{name}"),
                    )
                    yield replace(finding, subject=str(fault.given))


class ModelGraphVersion(GraphRule):
    """TensorFlow refuses a graph that requires a newer reader, or is older than what it reads.

    Source: tensorflow/core/framework/versions.cc (CheckVersions), read 2026-11-22; the versions that
    each image reads are in infra/catalog/op_versions.json
    """

    example = "# a graph whose versions say min_consumer 99999"


class ModelOpUnknown(GraphRule):
    """TensorFlow Serving does not load a graph with an operation that is not linked into it.

    Source: tensorflow_serving/model_servers/BUILD, read 2026-11-22, and infra/catalog/op_versions.json
    """

    # Functions that the graph does not call are not checked. Operations of tensorflow_text and
    # decision forests are linked.

    example = "# a model with tf.image.decode_jxl (TensorFlow 2.21), or with a custom operation"


class ModelOpRemoved(GraphRule):
    """TensorFlow refuses a removed operation in graphs of a newer GraphDef version.

    Source: tensorflow/core/framework/op_def_util.cc (CheckOpDeprecation), read 2026-11-22
    """

    example = "# TensorArrayV2 in a graph of version 26 of GraphDef or newer"


class ModelOpAttribute(GraphRule):
    """TensorFlow refuses an attribute that is missing, of the wrong kind, or has a forbidden value.

    Source: tensorflow/core/framework/node_def_util.cc (ValidateNodeDef), read 2026-11-22
    """

    example = "# a MatMul without its T"


class ModelOpAttributeIgnored(GraphRule):
    """TensorFlow ignores an attribute that it does not know, so the operation may compute otherwise.

    Source: tensorflow/core/framework/node_def_util.cc (ValidateNodeDef, "Unknown attributes will be
    ignored"), read 2026-11-22
    """

    # An attribute with its default value changes nothing, and is not reported.

    severity = Severity.WARNING
    example = "# an operation with an attribute that only a newer TensorFlow knows, other than its default"


class ModelStablehloVersion(GraphRule):
    """A module of jax2tf has versions that an older TensorFlow does not read.

    Source: answers of each TensorFlow to such modules (scripts/ops_table.py, infra/catalog/
    op_versions.json), and https://github.com/openxla/stablehlo/blob/main/docs/compatibility.md
    """

    # There are three: of XlaCallModule, of the bytecode, and of each operation. A module that was
    # only written by a newer StableHLO is not reported, because it runs.

    example = "# a model of jax2tf in an image of TensorFlow 2.14"


class ModelPlatform(GraphRule):
    """A module of jax2tf runs only on the platforms for which it was exported.

    Source: https://github.com/jax-ml/jax/blob/main/jax/experimental/jax2tf/README.md ("Natively
    serialized JAX modules are platform specific"), read 2026-11-22; tests/exports/models/jax-cuda, tried
    """

    # Left to itself, jax2tf exports for the one platform of the process that exports: CPU on a
    # laptop, CUDA on a computer with a GPU, also where Keras 3 on JAX calls it.

    example = "# a model of jax2tf exported on a computer with a GPU, on ml.c5.xlarge"


class ModelNeedsPython(GraphRule):
    """The body of tf.py_function and tf.numpy_function stays in the process that exported the model.

    Source: https://www.tensorflow.org/api_docs/python/tf/py_function, read 2026-11-22
    """

    example = "# a model that calls tf.numpy_function"


class ModelOpWithoutKernel(GraphRule):
    """On an instance type without a GPU, an operation needs a CPU kernel for its data types.

    Source: kernels that the wheels of tensorflow-cpu register (infra/catalog/ops.jsonl)
    """

    example = "# CudnnRNNV3 on ml.c5.xlarge"


class ModelChannelsFirst(GraphRule):
    """On CPUs only oneDNN convolves and pools with channels first, and not every CPU switches it on.

    Source: answers of TensorFlow 2.21 with oneDNN on, off and left alone, 2026-11-24;
    https://github.com/tensorflow/serving/issues/1466
    """

    severity = Severity.WARNING
    example = '# a Conv2D with data_format "NCHW" on ml.c5.xlarge'

    def look(self, name: str, placement: Placement) -> Findings:
        if is_upstream(placement.tensorflow) and not placement.settings.onednn:
            for finding in super().look(name, placement):
                yield replace(finding, allowed=finding.allowed and "NHWC and NDHWC")


class ModelReadsOutside(GraphRule):
    """A file that is neither in the archive nor in the image is missing when a request needs it.

    Source: https://www.tensorflow.org/guide/saved_model, assets, read 2026-11-22
    """

    # Assets of the model are in the archive, so tables that are filled from them are not reported.

    severity = Severity.WARNING
    example = '# a model that calls tf.io.read_file("/home/me/vocabulary.txt")'
