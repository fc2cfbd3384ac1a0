"""Rules about the outputs that [replay] names."""

import re

from infra.parameters.finding import meant
from infra.preflight.rule import Findings, Rule
from model_packaging.refusal import PackagingError

# Names that a comparison gives to what has none: servable/answers/outputs.py.
_WITHOUT_NAME = re.compile(r"output|column [1-9][0-9]*")


class ReplayOutputUnknown(Rule):
    """A tolerance for an output that no model has is never applied, and the default one decides instead.

    Names are those of the SavedModels' signatures, and `output` for answers without names.
    """

    # Names are those of the SavedModels' signatures, and `output` for answers without names. If
    # code may write the answer, its outputs are not known beforehand.

    acknowledgeable = True
    example = "replay.outputs.porb.relative = 0.001"

    def look(self) -> Findings:
        if not self.environment.replay.outputs:
            return
        outputs = self._names()
        for name in self.environment.replay.outputs:
            if _WITHOUT_NAME.fullmatch(name) or (outputs is not None and name in outputs):
                continue
            key = f"replay.outputs.{name}"
            if outputs is None:
                needs = "a saved_model without code, whose outputs are known"
                yield self.not_checked(key, needs, f"whether a model has the output {name!r}")
            else:
                yield self.finding(
                    key,
                    f"no model of the file has an output {name!r}",
                    given=name,
                    allowed=", ".join(sorted(outputs)),
                    remedy=meant(name, outputs) or "write the output's name, or take the table out",
                    reads=tuple(f"models.{model}" for model in self.environment.models),
                )

    def _names(self) -> set[str] | None:
        """Outputs of every version of every model; None if one is not known."""
        names: set[str] = set()
        for name, model in self.environment.models.items():
            folders = self.candidate.version_folders(name)
            if model.code is not None or (not folders and model.multi_model is None):
                return None
            try:
                for folder in folders:
                    for signature in self.candidate.saved_model(folder).signatures.values():
                        names |= set(signature.outputs)
            except (PackagingError, OSError):
                return None
        return names
