"""Rules about what a model's graph reads when it is loaded: its variables, and files of its assets."""

from infra.catalog import images
from infra.parameters.model import ModelTable
from infra.parameters.placement import Placement
from infra.parameters.sources import shown_path
from infra.preflight.rule import Findings, ModelRule, VariantRule
from model_packaging.refusal import PackagingError
from model_packaging.saved_model.initialization import vocabulary_fault
from model_packaging.saved_model.unfilled import describe
from model_packaging.saved_model.variables import (
    MOST_CHECKED_BYTES,
    differences,
    stored_variables,
)

BYTES_PER_MB = 10**6
_TOO_LARGE = "--run, which loads the model: its graph is too large to be followed"


class ModelVariables(ModelRule):
    """Variables of another model, or with a damaged byte, are found only when the model is loaded.

    Source: tensorflow/core/util/tensor_bundle/tensor_bundle.cc (BundleReader::GetValue) and
    tensorflow/core/kernels/save_restore_tensor.cc (2026-11-24)
    """

    # The rule compares names, data types and shapes with what the graph restores, and the checksum
    # of each tensor with its bytes, in models of up to 8 MiB of variables.

    example = "# variables/ of one export beside the saved_model.pb of another"
    key = "models.{name}.saved_model"
    allowed = "the files of one export"
    remedy = "export the SavedModel again, or copy all of its files again"

    def look(self, name: str, model: ModelTable) -> Findings:
        for folder, info in self.candidate.saved_models(name):
            try:
                stored = stored_variables(folder)
                restored = self.candidate.graph(folder).restored if info.has_variables else ()
                key = f"models.{name}.saved_model"
                if restored is None:
                    question = "whether the model's variables are complete"
                    yield self.not_checked(key, _TOO_LARGE, question)
                problems = list(differences(restored or (), stored))
                if info.variable_bytes <= MOST_CHECKED_BYTES:
                    problems += [
                        f"{variable.file.name}: the checksum of {key!r} does not match its bytes"
                        for key, variable in stored.items()
                        if not variable.is_intact
                    ]
                else:
                    megabytes = info.variable_bytes / BYTES_PER_MB
                    needs = f"--run, which loads the {megabytes:,.0f} MB of variables"
                    yield self.not_checked(key, needs, "whether the variables are intact")
            except (PackagingError, OSError):
                continue  # the rule SavedModel reports it
            if problems:
                more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
                shown = shown_path(folder / "variables", self.loaded.root)
                yield self.finding(
                    problem=f"{shown}: {problems[0]}{more}", given=model.saved_model, name=name
                )


class ModelVocabulary(ModelRule):
    """A table is filled from its file when the model is loaded: a key that is there twice ends the load.

    Source: tensorflow/core/kernels/lookup_util.cc and lookup_table_op.h (2026-11-24), tried with 2.21
    """

    # The rule reads the text files from which the graph fills tables, up to the first line that
    # TensorFlow would refuse.

    example = "# assets/vocabulary.txt with a word twice"
    key = "models.{name}.saved_model"
    allowed = "one line for each key, none of them empty"
    remedy = "correct the file, and export the SavedModel again"

    def look(self, name: str, model: ModelTable) -> Findings:
        for folder, info in self.candidate.saved_models(name):
            if not info.assets:
                continue
            try:
                tables = self.candidate.graph(folder).vocabularies
                if tables is None:
                    question = "whether the model's vocabularies are complete"
                    yield self.not_checked(f"models.{name}.saved_model", _TOO_LARGE, question)
                faults = {
                    folder / "assets" / table.file: fault
                    for table in tables or ()
                    if (fault := vocabulary_fault(folder / "assets" / table.file, table))
                }
            except (PackagingError, OSError):
                continue  # the rule SavedModel reports it
            for file, fault in faults.items():
                yield self.finding(
                    problem=f"{shown_path(file, self.loaded.root)}: {fault}",
                    given=model.saved_model,
                    name=name,
                )


class ModelUnfilled(ModelRule):
    """Requests fail if they read a variable that nothing restores, or a table that nothing initializes.

    Source: tensorflow/cc/saved_model/loader.cc (RunRestore, RunInitOp), read 2026-11-29; the responses of
    TensorFlow 2.21 to 20 such models
    """

    # The rule follows the graph from the outputs of each signature back, through functions, and
    # compares what is read with what restoring and initialization write. It also reports
    # placeholders that no input feeds, and devices of other computers.

    acknowledgeable = True
    example = "# a Keras 3 model written by tf.saved_model.save instead of model.export"
    key = "models.{name}.saved_model"

    def look(self, name: str, model: ModelTable) -> Findings:
        for folder, _ in self.candidate.saved_models(name):
            try:
                unfilled = self.candidate.graph(folder).unfilled
            except (PackagingError, OSError):
                continue  # the rule SavedModel reports it
            if unfilled is None:
                question = "whether loading fills the model's variables and tables"
                yield self.not_checked(f"models.{name}.saved_model", _TOO_LARGE, question)
            shown = shown_path(folder, self.loaded.root)
            for found in unfilled or ():
                problem, remedy = describe(found)
                yield self.finding(
                    problem=f"{shown}/saved_model.pb: {problem}",
                    given=model.saved_model,
                    remedy=remedy,
                    name=name,
                )


class VersionZero(VariantRule):
    """Images before 2.20 write version 0 as no version into the model server's configuration, and end.

    Source: find_model_versions in tfs_utils.py, https://github.com/aws/sagemaker-tensorflow-serving-container
    (it strips all leading zeros; read 2026-11-24); observed with the code of image 2.20
    """

    # Since 2.20 it is a version as any other.

    example = "# the version folder model/0 with TensorFlow 2.19"
    allowed = "versions from 1 on, or TensorFlow 2.20"
    remedy = "rename the folder to 1, or set tensorflow to 2.20"

    def look(self, placement: Placement) -> Findings:
        if images.has("rewritten_code", placement.tensorflow) or placement.model.image is not None:
            return
        for name in self.candidate.served_by(placement):
            model = self.environment.models[name]
            folders = self.candidate.version_folders(name)
            stated = [model.version] if model.version is not None else []
            if 0 in (stated or [int(folder.name) for folder in folders]):
                yield self.finding(
                    f"models.{name}.saved_model",
                    f"the image of TensorFlow {placement.tensorflow} does not start with version 0",
                    reads=(f"models.{placement.variant.model}.tensorflow",),
                )
