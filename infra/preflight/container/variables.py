"""Rules about the user's own environment variables in the container."""

from infra.catalog.limits import find_maximum
from infra.parameters.finding import Severity
from infra.parameters.placement import Placement
from infra.policy import container
from infra.preflight.rule import ContainerRule, Findings, Parts, Rule
from model_packaging.secret_files import find_secret, is_secret_by_name

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (2026-11-22)
MOST_BYTES = 32 * 1024


def _build_environment(placement: Placement) -> dict[str, str]:
    """Return all variables of the container: the file's own, and those of its settings."""
    ours = container.build_variables(
        placement.settings,
        default_model=placement.model.default_name(placement.variant.model),
        tensorflow=placement.tensorflow,
    )
    return {**placement.variant.environment, **ours}


class VariableRule(Rule):
    """A rule about each of the file's own environment variables."""

    key = "environment.{name}"

    def list_parts(self) -> Parts:
        for placement in self.candidate.containers:
            for name, value in placement.variant.environment.items():
                yield placement, name, value


class VariablesTooMany(ContainerRule):
    """SageMaker rejects a model with more than 100 variables, the container's included.

    Source: infra/catalog/limits.json, EnvironmentMap
    """

    remedy = "put some into a file in the code folder"

    def find_problems(self, placement: Placement) -> Findings:
        count, allowed = len(_build_environment(placement)), find_maximum("EnvironmentMap")
        if count > allowed:
            own = len(placement.variant.environment)
            problem = f"{own} variables and the container's add up to {count}"
            most = f"at most {allowed} in all, {allowed - count + own} of your own"
            yield self.build_finding("environment", problem, given=count, allowed=most)


class VariableTooLong(VariableRule):
    """SageMaker rejects a variable of more than 1024 characters.

    Source: infra/catalog/limits.json, EnvironmentValue
    """

    remedy = "put it into a file in the code folder"

    def find_problems(self, placement: Placement, name: str, value: str) -> Findings:
        allowed = find_maximum("EnvironmentValue")
        if len(value) > allowed:
            problem = f"{name} has {len(value)} characters"
            yield self.build_finding(problem=problem, allowed=f"at most {allowed}")


class VariablesTooLarge(ContainerRule):
    """SageMaker rejects a model whose variables are more than 32 KB together, names included.

    Source:
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ContainerDefinition.html (2026-11-22)
    """

    allowed = f"at most {MOST_BYTES:,}"
    remedy = "put some into a file in the code folder"

    def find_problems(self, placement: Placement) -> Findings:
        variables = _build_environment(placement).items()
        size = sum(len(f"{name}{value}".encode()) for name, value in variables)
        if size > MOST_BYTES:
            problem = f"names and values have {size:,} bytes in total, including the container's"
            yield self.build_finding("environment", problem, given=size)


class VariableHoldsSecret(VariableRule, acknowledgeable=True):
    """A variable is in the template in plain text, and in every answer to DescribeModel.

    A name that ends in PASSWORD, API_KEY or the like is a warning.
    Source: https://docs.aws.amazon.com/secretsmanager/latest/userguide/best-practices.html;
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeModel.html (Environment)
    """

    remedy = "put it into AWS Secrets Manager, and read it when the code is imported"

    def find_problems(self, placement: Placement, name: str, value: str) -> Findings:
        looks_like = find_secret(f"{name}={value}".encode())
        if looks_like or is_secret_by_name(name, value):
            kind = looks_like or "a secret, by its name"
            problem = f"{name} looks like {kind}: it would be in the template"
            severity = Severity.ERROR if looks_like else Severity.WARNING
            yield self.build_finding(problem=problem, given=None, severity=severity)


class VariableInert(VariableRule, severity=Severity.WARNING):
    """A variable that the image does not read, or overwrites, has no effect.

    Source: serve.py of the images, 2.20 and before,
    https://github.com/aws/sagemaker-tensorflow-serving-container;
    the strings of libtensorflow
    """

    example = f'variants.primary.environment.{container.OLD_ONEDNN_SWITCH} = "1"'
    remedy = "remove it"
    reads = ("models.{placement.variant.model}.tensorflow",)

    def find_problems(self, placement: Placement, name: str, value: str) -> Findings:
        if reason := container.explain_inert_variable(name, value, tensorflow=placement.tensorflow):
            yield self.build_finding(problem=f"{name} = {value!r} has no effect: {reason}")


class VariableUnsupported(VariableRule, acknowledgeable=True):
    """The image reads a variable that changes what it serves, in a way that no rule knows.

    Source: serve.py and tfs_utils.py of the images, https://github.com/aws/deep-learning-containers
    """

    problem = "{name} = {value!r} changes what the container serves"
    remedy = "remove it"

    def find_problems(self, placement: Placement, name: str, value: str) -> Findings:
        if name in container.UNSUPPORTED:
            yield self.build_finding(allowed=container.UNSUPPORTED[name])
