"""The operations of a model's graph, and what the TensorFlow of its image makes of them."""

from dataclasses import replace
from pathlib import Path

from infra.catalog.ops import op_table
from infra.packing import variants_running
from infra.parameters.environment import Environment
from infra.parameters.finding import Severity
from infra.preflight.rule import Findings, Rule
from model_packaging.refusal import PackagingError


class GraphRule(Rule):
    """A rule about the graph of a model that is packed here, in the stock image that runs it.

    What an image of one's own has is not known, nor what those before TensorFlow 2.12 have.
    """

    acknowledgeable = True

    def check(self, environment: Environment) -> Findings:
        for name in environment.models:
            folders = self.candidate.version_folders(name)
            for variant in variants_running(environment, name) if folders else ():
                found = [one for one in self.candidate.placements if one.variant is variant]
                for one in found:
                    if one.model.image is None:
                        yield from self._of(
                            name, folders, one.tensorflow, cpu=not one.instance.gpus
                        )

    def _of(self, name: str, folders: tuple[Path, ...], tensorflow: str, *, cpu: bool) -> Findings:
        key = f"models.{name}.saved_model"
        table = op_table(tensorflow)
        if table is None:
            yield self.not_checked(
                key, f"a TensorFlow from 2.12 on: what {tensorflow} has is not known"
            )
            return
        for folder in folders:
            try:
                faults = self.candidate.graph_faults(folder, table, cpu=cpu)
            except (PackagingError, OSError):
                continue  # SavedModel says so
            inside = folder.is_relative_to(self.loaded.root)
            shown = folder.relative_to(self.loaded.root).as_posix() if inside else str(folder)
            for one in faults:
                if one.rule == self.id:
                    remedy = one.remedy.replace("models.NAME", f"models.{name}")
                    problem = f"{shown}/saved_model.pb: {one.problem}"
                    found = self.finding(
                        key, problem, given=one.given, allowed=one.allowed, remedy=remedy
                    )
                    yield replace(found, subject=str(one.given))


class ModelGraphVersion(GraphRule):
    """TensorFlow refuses a graph that asks for a newer reader, or that is older than what it reads.

    Source: tensorflow/core/framework/versions.cc (CheckVersions), read 2026-11-22; the versions that
    each image reads are in infra/catalog/op_versions.json
    """

    example = "# a graph whose versions say min_consumer 99999"


class ModelOpUnknown(GraphRule):
    """TensorFlow Serving does not load a graph with an operation that is not linked into it.

    Functions that nothing of the graph calls are not looked at. What tensorflow_text and decision
    forests need is linked.
    Source: tensorflow_serving/model_servers/BUILD, read 2026-11-22, and infra/catalog/op_versions.json
    """

    example = (
        "# a model with tf.image.decode_jxl (TensorFlow 2.21), or with an operation of one's own"
    )


class ModelOpRemoved(GraphRule):
    """An operation that was taken out of TensorFlow is refused in graphs of a newer GraphDef.

    Source: tensorflow/core/framework/op_def_util.cc (CheckOpDeprecation), read 2026-11-22
    """

    example = "# TensorArrayV2 in a graph of version 26 of GraphDef or newer"


class ModelOpAttribute(GraphRule):
    """An attribute that is missing, of another kind, or of a value that is not allowed is refused.

    Source: tensorflow/core/framework/node_def_util.cc (ValidateNodeDef), read 2026-11-22
    """

    example = "# a MatMul without its T"


class ModelOpAttributeIgnored(GraphRule):
    """TensorFlow runs an operation as if an attribute that it does not know were not there.

    One that a newer TensorFlow wrote with its default changes nothing, and is no finding.
    Source: tensorflow/core/framework/node_def_util.cc (ValidateNodeDef, "Unknown attributes will be
    ignored"), read 2026-11-22
    """

    severity = Severity.WARNING
    example = "# an operation with an attribute that only a newer TensorFlow knows, other than its default"


class ModelStablehloVersion(GraphRule):
    """A module of jax2tf is of versions that an older TensorFlow does not read.

    Three of them: of XlaCallModule, of the bytecode, and of each of its operations. That it was
    written by a newer StableHLO alone is no finding: such a module runs.
    Source: what each TensorFlow answered to such modules (scripts/ops_table.py, infra/catalog/
    op_versions.json), and https://github.com/openxla/stablehlo/blob/main/docs/compatibility.md
    """

    example = "# a model of jax2tf in an image of TensorFlow 2.14"


class ModelNeedsPython(GraphRule):
    """The body of tf.py_function and tf.numpy_function stays in the process that exported the model.

    Source: https://www.tensorflow.org/api_docs/python/tf/py_function, read 2026-11-22
    """

    example = "# a model that calls tf.numpy_function"


class ModelOpWithoutKernel(GraphRule):
    """On an instance type without a GPU an operation needs a CPU kernel for the types that it has.

    Source: what the wheels of tensorflow-cpu register (infra/catalog/ops.jsonl)
    """

    example = "# CudnnRNNV3 on ml.c5.xlarge"


class ModelReadsOutside(GraphRule):
    """What is neither in the archive nor in the image is not there when a request comes.

    Assets of the model are in the archive, and tables that are filled from them are no finding.
    Source: https://www.tensorflow.org/guide/saved_model, assets, read 2026-11-22
    """

    severity = Severity.WARNING
    example = '# a model that calls tf.io.read_file("/home/me/vocabulary.txt")'
