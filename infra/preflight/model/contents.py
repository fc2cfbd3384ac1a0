"""Rules about a model's graph: what it reads when it is loaded, and its operations.

It reads variables and files of its assets; the image's TensorFlow must support the operations.
"""

import contextlib
from dataclasses import replace

from infra.catalog import images
from infra.catalog.images import find_op_table
from infra.packing import find_running_variants
from infra.parameters.finding import Severity
from infra.parameters.model import ModelTable
from infra.parameters.placement import Placement
from infra.parameters.sources import format_path
from infra.policy.container import has_upstream_tensorflow
from infra.preflight.rule import Findings, ModelRule, Parts, Rule, VariantRule
from model_packaging.refusal import PackagingError
from model_packaging.saved_model import variables
from model_packaging.saved_model.initialization import find_vocabulary_fault
from model_packaging.saved_model.unfilled import describe_unfilled

_TOO_LARGE = "--run, which loads the model: its graph is too large to analyze"


class ModelVariables(ModelRule):
    """Variables of another model, or with a damaged byte, are found only when the model is loaded.

    Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc (BundleReader::GetValue) and
    tensorflow/core/kernels/save_restore_tensor.cc (2026-11-24)
    """

    key = "models.{name}.saved_model"
    remedy = "export the SavedModel again, or copy all of its files again"

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        for folder, info in self.candidate.read_saved_models(name):
            try:
                stored = variables.read_stored_variables(folder)
                restored = self.candidate.read_graph(folder).restored if info.has_variables else ()
                key = f"models.{name}.saved_model"
                if restored is None:
                    question = "whether the model's variables are complete"
                    yield self.build_unchecked(key, _TOO_LARGE, question)
                size = info.variable_bytes
                problems = list(variables.find_variable_faults(restored or (), stored, size=size))
                if size > variables.MOST_CHECKED_BYTES:
                    needs = f"--run, which loads the {size / 10**6:,.0f} MB of variables"
                    yield self.build_unchecked(key, needs, "whether the variables are intact")
            except (PackagingError, OSError):
                continue  # the rule SavedModel reports it
            if problems:
                more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
                shown = format_path(folder / "variables", self.loaded.root)
                yield self.build_finding(problem=f"{shown}: {problems[0]}{more}")


class ModelVocabulary(ModelRule):
    """A table is filled from its file when the model is loaded: a duplicate key makes the load fail.

    Source: tensorflow/core/kernels/lookup_util.cc and lookup_table_op.h (2026-11-24), tried with 2.21
    """

    key = "models.{name}.saved_model"
    remedy = "correct the file, and export the SavedModel again"

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        for folder, info in self.candidate.read_saved_models(name):
            with contextlib.suppress(PackagingError, OSError):  # the rule SavedModel reports it
                tables = self.candidate.read_graph(folder).vocabularies if info.assets else ()
                if tables is None:
                    question = "whether the model's vocabularies are complete"
                    yield self.build_unchecked(f"models.{name}.saved_model", _TOO_LARGE, question)
                for table in tables or ():
                    file = folder / "assets" / table.file
                    if fault := find_vocabulary_fault(file, table):
                        shown = format_path(file, self.loaded.root)
                        yield self.build_finding(problem=f"{shown}: {fault}")


class ModelUnfilled(ModelRule, acknowledgeable=True):
    """Requests fail if they read a variable that nothing restores, or a table that nothing initializes.

    Source: tensorflow/cc/saved_model/loader.cc (RunRestore, RunInitOp), read 2026-11-29; the responses of
    TensorFlow 2.21 to 20 such models
    """

    key = "models.{name}.saved_model"

    def find_problems(self, name: str, model: ModelTable) -> Findings:
        for folder, _ in self.candidate.read_saved_models(name):
            try:
                unfilled = self.candidate.read_graph(folder).unfilled
            except (PackagingError, OSError):
                continue  # the rule SavedModel reports it
            if unfilled is None:
                question = "whether loading fills the model's variables and tables"
                yield self.build_unchecked(f"models.{name}.saved_model", _TOO_LARGE, question)
            for found in unfilled or ():
                problem, remedy = describe_unfilled(found)
                problem = f"{format_path(folder, self.loaded.root)}/saved_model.pb: {problem}"
                yield self.build_finding(problem=problem, remedy=remedy)


class VersionZero(VariantRule):
    """Images before 2.20 write version 0 as no version into the model server's configuration, and exit.

    Source: find_model_versions in tfs_utils.py, https://github.com/aws/sagemaker-tensorflow-serving-container
    (it strips all leading zeros; read 2026-11-24); observed with the code of image 2.20
    """

    key = "models.{name}.saved_model"
    problem = "the image of TensorFlow {placement.tensorflow} does not start with version 0"
    remedy = "rename the folder to 1, or set tensorflow to 2.20"
    reads = ("models.{placement.variant.model}.tensorflow",)

    def find_problems(self, placement: Placement) -> Findings:
        new = images.has_feature("rewritten_code", placement.tensorflow)
        for name in self.candidate.list_served_models(placement):
            version = self.environment.models[name].version
            folders = self.candidate.find_version_folders(name)
            versions = [int(folder.name) for folder in folders] if version is None else [version]
            if 0 in versions and not new and placement.model.image is None:
                yield self.build_finding(name=name)


class GraphRule(Rule, acknowledgeable=True):
    """A rule about the graph of a model that is packed here and runs in AWS's image.

    The operations of the user's own images, and of images before TensorFlow 2.12, aren't known.
    """

    def list_parts(self) -> Parts:
        for name in self.environment.models:
            running = [variant.model for variant in find_running_variants(self.environment, name)]
            for placement in self.candidate.containers:
                if placement.variant.model in running and placement.model.image is None:
                    yield name, placement

    def find_problems(self, name: str, placement: Placement) -> Findings:
        key, table = f"models.{name}.saved_model", find_op_table(placement.tensorflow)
        folders = self.candidate.find_version_folders(name)
        if folders and table is None:
            older = f"the operations of {placement.tensorflow} are not known"
            question = "whether the image runs the model's operations"
            yield self.build_unchecked(key, f"a TensorFlow from 2.12 on: {older}", question)
        for folder in folders:
            if table is None:
                return
            try:
                cpu = not placement.instance.gpus
                faults = self.candidate.find_graph_faults(folder, table, cpu)
            except (PackagingError, OSError):
                continue  # the rule SavedModel reports it
            shown = format_path(folder, self.loaded.root)
            for fault in faults:
                if fault.rule == self.id:
                    yield self.build_finding(
                        key,
                        f"{shown}/saved_model.pb: {fault.problem}",
                        given=fault.given,
                        allowed=fault.allowed,
                        remedy=fault.remedy.replace("models.NAME", f"models.{name}"),
                        subject=str(fault.given),
                    )


class ModelGraphVersion(GraphRule):
    """TensorFlow rejects a graph that requires a newer reader, or is older than what it reads.

    Source: tensorflow/core/framework/versions.cc (CheckVersions), read 2026-11-22; the versions that
    each image reads are in infra/catalog/op_versions.json
    """


class ModelOpUnknown(GraphRule):
    """TensorFlow Serving does not load a graph with an operation that is not linked into it.

    Source: tensorflow_serving/model_servers/BUILD, read 2026-11-22, and infra/catalog/op_versions.json
    """


class ModelOpRemoved(GraphRule):
    """TensorFlow rejects a removed operation in graphs of a newer GraphDef version.

    Source: tensorflow/core/framework/op_def_util.cc (CheckOpDeprecation), read 2026-11-22
    """


class ModelOpAttribute(GraphRule):
    """TensorFlow rejects an attribute that is missing, of the wrong kind, or has a forbidden value.

    Source: tensorflow/core/framework/node_def_util.cc (ValidateNodeDef), read 2026-11-22
    """


class ModelOpAttributeIgnored(GraphRule, severity=Severity.WARNING):
    """TensorFlow ignores an attribute that it does not know, so the operation may give different results.

    Source: tensorflow/core/framework/node_def_util.cc (ValidateNodeDef, "Unknown attributes will be
    ignored"), read 2026-11-22
    """


class ModelStablehloVersion(GraphRule):
    """A module of jax2tf has versions that an older TensorFlow does not read.

    Source: answers of each TensorFlow to such modules (scripts/ops_table.py, infra/catalog/
    op_versions.json), and https://github.com/openxla/stablehlo/blob/main/docs/compatibility.md
    """


class ModelPlatform(GraphRule):
    """A module of jax2tf runs only on the platforms for which it was exported.

    Source: https://github.com/jax-ml/jax/blob/main/jax/experimental/jax2tf/README.md ("Natively
    serialized JAX modules are platform specific"), read 2026-11-22; tests/exports/models/jax-cuda, tried
    """


class ModelNeedsPython(GraphRule):
    """The body of tf.py_function and tf.numpy_function stays in the process that exported the model.

    Source: https://www.tensorflow.org/api_docs/python/tf/py_function, read 2026-11-22
    """


class ModelOpWithoutKernel(GraphRule):
    """On an instance type without a GPU, an operation needs a CPU kernel for its data types.

    Source: kernels that the wheels of tensorflow-cpu register (infra/catalog/ops.jsonl)
    """


class ModelChannelsFirst(GraphRule, severity=Severity.WARNING):
    """On CPUs only oneDNN convolves and pools with channels first, and not every CPU switches it on.

    Source: answers of TensorFlow 2.21 with oneDNN on, off and left alone, 2026-11-24;
    https://github.com/tensorflow/serving/issues/1466
    """

    def find_problems(self, name: str, placement: Placement) -> Findings:
        if has_upstream_tensorflow(placement.tensorflow) and not placement.settings.onednn:
            for finding in super().find_problems(name, placement):
                yield replace(finding, allowed=finding.allowed and "NHWC and NDHWC")


class ModelReadsOutside(GraphRule, severity=Severity.WARNING):
    """A file that is neither in the archive nor in the image is missing when a request needs it.

    Source: https://www.tensorflow.org/guide/saved_model, assets, read 2026-11-22
    """
