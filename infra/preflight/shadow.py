"""A variant that gets copies of requests and answers nobody."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule

EXCLUSIONS = "https://docs.aws.amazon.com/sagemaker/latest/dg/shadow-tests-exclusions.html"


def _shadows(environment: Environment) -> list[str]:
    return [name for name, one in environment.variants.items() if one.shadow]


class ShadowPair(Rule):
    """A shadow follows one production variant, and there is one shadow.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    (ShadowProductionVariants: one variant for each of both)
    """

    id = "shadow-pair"
    example = "variants.primary.shadow = true"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        shadows, production = _shadows(environment), environment.production_variants
        if shadows and (len(shadows), len(production)) != (1, 1):
            yield self.finding(
                loaded,
                f"variants.{shadows[0]}.shadow",
                None,
                f"{len(shadows)} shadow and {len(production)} production variants (shadow is true of "
                f"{', '.join(shadows)})",
                allowed="one of each",
                remedy="take the others out",
                reads=("variants",),
            )


class ShadowExcluded(Rule):
    """SageMaker refuses a shadow beside a queue, and of several models of which a request names one.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/shadow-tests-exclusions.html
    """

    id = "shadow-excluded"
    example = """\
asynchronous = {}
variants.copy = { model = "ranker", instance_type = "ml.c5.xlarge", shadow = true }"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        shadows = _shadows(environment)
        if not shadows:
            return
        many = [
            name
            for name, one in environment.variants.items()
            if (model := environment.models.get(one.model)) and model.multi_model is not None
        ]
        excluded = {
            "asynchronous": "[asynchronous]" if environment.asynchronous is not None else None,
            **{f"variants.{name}.model": f"multi_model of variant {name}" for name in many},
        }
        for key, what in excluded.items():
            if what is not None:
                yield self.finding(
                    loaded,
                    key,
                    None,
                    f"{what} beside the shadow variant {shadows[0]}",
                    allowed="a shadow of one model that callers wait for",
                    remedy=f"take it out, or variants.{shadows[0]}",
                    reads=(f"variants.{shadows[0]}.shadow",),
                )


class ShadowWeight(Rule):
    """A shadow's weight is its share of the other's: above it there is nothing to copy.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/shadow-tests.html (a portion of the
    requests is replicated); docs/decisions/0019 (how weights say it)
    """

    id = "shadow-weight"
    example = """\
variants.copy = { model = "ranker", instance_type = "ml.c5.xlarge", shadow = true, weight = 2.0 }"""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        most = max((one.weight for one in environment.production_variants.values()), default=None)
        for name in _shadows(environment):
            given = environment.variants[name].weight
            if most is not None and not 0 < given <= most:
                yield self.finding(
                    loaded,
                    f"variants.{name}.weight",
                    given,
                    f"weight {given:g} of a shadow, {most:g} of the variant that it follows",
                    allowed=f"above 0, at most {most:g}",
                    remedy="lower it; equal is a copy of every request",
                )
