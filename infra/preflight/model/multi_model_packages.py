"""Rules about packages that the models of a multi-model endpoint share."""

from infra.parameters.model import Model
from infra.preflight.rule import Findings, ModelRule
from model_packaging.dependencies import vendored_versions
from model_packaging.refusal import PackagingError


class MultiModelPackages(ModelRule):
    """The models share one process, which imports the package of whichever model is loaded first.

    Source: python_service.py of the images, 2.20 and before (_import_custom_modules appends each
    model's code/lib to sys.path), https://github.com/aws/deep-learning-containers
    """

    # The order depends on the requests, so that the same model may answer differently on two
    # instances.

    acknowledgeable = True
    example = "# multi_model of two models whose requirements.lock files name two versions"
    allowed = "one version of a package in all models of the endpoint"

    def look(self, name: str, model: Model) -> Findings:
        first: dict[str, tuple[str, str]] = {}
        for member in model.multi_model or ():
            for package, version in self._versions(member).items():
                other, others_version = first.setdefault(package, (member, version))
                if version != others_version:
                    yield self.finding(
                        f"models.{name}.multi_model",
                        f"{package} is {version} in the code of {member!r}, and "
                        f"{others_version} in that of {other!r}; they share one process",
                        given=member,
                        remedy=f"name one version in the requirements.txt of both, and run "
                        f"`servable package {self.loaded.name}`",
                    )

    def _versions(self, member: str) -> dict[str, str]:
        """Locked versions of the packages in the model's code; empty for an unknown model."""
        folder = self.candidate.code_folders.get(member)
        if folder is None or self.environment.models[member].install != "vendored":
            return {}
        try:
            return vendored_versions(folder)
        except PackagingError:
            return {}  # CodeNotVendored reports an invalid lock
