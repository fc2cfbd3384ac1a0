"""Tables that name each other."""

from collections.abc import Iterator

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, meant
from infra.parameters.loading import Loaded
from infra.preflight.rule import Rule

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
MOST_VARIANTS = 10


class VariantModelUnknown(Rule):
    """A variant serves a model of this file."""

    id = "variant-model-unknown"
    example = 'variants.primary.model = "rankr"'

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        # From the file and not from the draft: a model with a problem of its own exists.
        written = loaded.source.values.get("models", {})
        models = sorted(written) if isinstance(written, dict) else []
        for name, variant in environment.variants.items():
            if variant.model not in models:
                yield self.finding(
                    loaded,
                    f"variants.{name}.model",
                    variant.model,
                    f"there is no model {variant.model!r}",
                    allowed=", ".join(models) or "none: the file has no [models.NAME]",
                    remedy=meant(variant.model, models),
                )


class NoVariant(Rule):
    """An endpoint needs a variant, and traffic for it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    """

    id = "no-variant"
    example = "variants.primary.weight = 0"

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        if not environment.variants and not loaded.source.values.get("variants"):
            yield self.finding(
                loaded,
                "variants",
                None,
                "no variant: nothing would answer",
                allowed="1 to 10 tables [variants.NAME]",
                remedy="add one with model and instance_type",
            )
        elif len(environment.variants) > MOST_VARIANTS:
            yield self.finding(
                loaded,
                "variants",
                len(environment.variants),
                f"{len(environment.variants)} variants are too many",
                allowed=f"1 to {MOST_VARIANTS} tables [variants.NAME]",
                remedy="take some out, or make another endpoint of them",
            )
        elif environment.production_variants and not any(
            variant.weight for variant in environment.production_variants.values()
        ):
            first = next(iter(environment.production_variants))
            yield self.finding(
                loaded,
                f"variants.{first}.weight",
                0,
                "every variant has weight 0: nothing would get traffic",
                allowed="at least one above 0",
                remedy="give one a weight",
            )
