"""Rules about variants, their models, the endpoint's name and tags, and shadow variants."""

import unicodedata
from collections.abc import Sequence

from infra.parameters.finding import Finding, suggest_name
from infra.parameters.variant import Variant
from infra.preflight.rule import EachVariantRule, Findings, Parts, Rule

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
MOST_VARIANTS = 10
MACHINES = ("instance_type", "instance_pools", "serverless")


class VariantModelUnknown(Rule):
    """A variant's model must be defined in this file."""

    def check_part(self) -> Findings:
        # Read from the file and not from the draft, where a model with a problem is missing.
        written = self.loaded.source.values.get("models", {})
        models = sorted(written) if isinstance(written, dict) else []
        for name, variant in self.environment.variants_by_table.items():
            if variant.model not in models:
                missing = "neither model nor components is given: nothing to serve"
                yield self.build_finding(
                    f"variants.{name}.model",
                    f"there is no model {variant.model!r}" if variant.model else missing,
                    allowed=", ".join(models) or "none: the file has no [models.NAME]",
                    remedy=suggest_name(variant.model, models),
                )


class VariantMachine(EachVariantRule):
    """A variant runs on instances of one type, on those of several, or serverless.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ProductionVariant.html
    """

    def check_part(self, name: str, variant: Variant) -> Findings:
        key = f"variants.{name}.instance_type"
        given = [machine for machine in MACHINES if getattr(variant, machine) is not None]
        if not given:
            yield self.build_finding(
                key,
                "one of instance_type, instance_pools and serverless is required",
                remedy=f'add instance_type = "ml.c5.xlarge" to [variants.{name}]',
                reads=tuple(f"variants.{name}.{machine}" for machine in MACHINES),
            )
        elif len(given) > 1:
            yield self.build_finding(
                f"variants.{name}.{given[0]}",
                f"{' and '.join(given)} are given",
                given=None,
                remedy=f"take {' or '.join(given)} out",
            )


class NoVariant(Rule):
    """An endpoint needs a variant, and traffic for it; a file without an endpoint needs a batch.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    """

    example = "variants.primary.weight = 0"

    def check_part(self) -> Findings:
        production, written = self.environment.production_variants, self.loaded.source.values
        if not any(written.get(table) for table in ("variants", "batch")):
            yield self.build_finding(
                "variants",
                "there is neither a variant nor a batch to deploy",
                given=None,
                remedy="add [variants.primary] with model and instance_type",
            )
        elif len(self.environment.variants) > MOST_VARIANTS:
            yield self.build_finding(
                "variants",
                f"{len(self.environment.variants)} variants are too many",
                given=len(self.environment.variants),
                allowed=f"1 to {MOST_VARIANTS} tables [variants.NAME]",
                remedy="remove some, or move them to another environment",
            )
        elif production and not any(variant.weight for variant in production.values()):
            yield self.build_finding(
                f"variants.{next(iter(production))}.weight",
                "every variant has weight 0: no variant would get traffic",
                given=0,
                remedy="give one a weight",
            )


class EndpointNameShared(Rule):
    """Two stacks cannot own one endpoint: the second fails to create it, or a rename in one deletes it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html
    (EndpointName: unique within an AWS Region in your AWS account)
    """

    remedy = "rename one of them"
    reads = ("account", "region")

    def check_part(self) -> Findings:
        if self.loaded.sharing:
            name = self.environment.endpoint.name
            yield self.build_finding(
                "endpoint.name",
                f"{name} is also the endpoint of {', '.join(self.loaded.sharing)}, in the same account and "
                "region",
            )


class ShadowRule(Rule):
    """A rule about shadow variants."""

    def list_parts(self) -> Parts:
        shadows = [name for name, variant in self.environment.variants.items() if variant.shadow]
        return [(shadows,)] if shadows else []


class ShadowPair(ShadowRule):
    """An endpoint with a shadow variant has exactly one production variant and one shadow.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    (ShadowProductionVariants: one variant for each of both)
    """

    remedy = "remove the others"
    reads = ("variants",)

    def check_part(self, shadows: Sequence[str]) -> Findings:
        production = self.environment.production_variants
        if (len(shadows), len(production)) != (1, 1):
            yield self.build_finding(
                f"variants.{shadows[0]}.shadow",
                f"there are {len(shadows)} shadow and {len(production)} production variants (shadow = true "
                f"in {', '.join(shadows)})",
                given=None,
            )


class ShadowExcluded(ShadowRule):
    """SageMaker rejects a shadow variant for asynchronous and for multi-model endpoints.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/shadow-tests-exclusions.html
    """

    def check_part(self, shadows: Sequence[str]) -> Findings:
        excluded = {}
        if self.environment.asynchronous is not None:
            excluded["asynchronous"] = "[asynchronous]"
        for name, variant in self.environment.variants.items():
            model = self.environment.models.get(variant.model)
            if model is not None and model.multi_model is not None:
                excluded[f"variants.{name}.model"] = f"multi_model of variant {name}"
        for key, what in excluded.items():
            yield self.build_finding(
                key,
                f"{what} cannot be combined with the shadow variant {shadows[0]}",
                given=None,
                remedy=f"remove it, or variants.{shadows[0]}",
                reads=(f"variants.{shadows[0]}.shadow",),
            )


class ShadowWeight(ShadowRule):
    """A shadow's weight relative to the production variant's is the share copied: at most equal.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/shadow-tests.html (a portion of the
    requests is replicated); docs/decisions/0019 (how weights say it)
    """

    remedy = "lower it; with equal weights every request is copied"

    def check_part(self, shadows: Sequence[str]) -> Findings:
        production = self.environment.production_variants.values()
        most = max((variant.weight for variant in production), default=None)
        for name in shadows:
            given = self.environment.variants[name].weight
            if most is not None and not 0 < given <= most:
                yield self.build_finding(
                    f"variants.{name}.weight",
                    f"the shadow's weight {given:g} is above that of its production variant, {most:g}",
                    allowed=f"above 0, at most {most:g}",
                )


MOST_TAGS = 50


class TagRefused(Rule):
    """AWS accepts 50 tags of letters, digits, spaces and _ . : / = + - @; keys with aws: are reserved.

    IAM, whose roles are tagged too, treats Owner and owner as the same key, and rejects both together.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Tag.html (2026-11-22),
    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html (2026-11-22)
    """

    def check_part(self) -> Findings:
        count = len(self.environment.tags)
        if count > MOST_TAGS:
            yield self.build_finding(
                "tags",
                f"{count} tags are too many",
                given=count,
                allowed=f"at most {MOST_TAGS}",
                remedy="remove some",
            )
        seen: set[str] = set()
        for key, value in self.environment.tags.items():
            characters = {
                repr(character)
                for character in key + value
                if character not in "_.:/=+-@" and unicodedata.category(character)[0] not in "LNZ"
            }
            if characters:
                holds = f"{key} = {value!r} holds {', '.join(sorted(characters))}"
                yield self._build_tag_finding(key, holds, "change it")
            if key.lower().startswith("aws:"):
                yield self._build_tag_finding(key, f"{key} begins with aws:", "rename it")
            if key.lower() in seen:
                yield self._build_tag_finding(
                    key, f"{key} exists already with different capitalization", "remove one"
                )
            seen.add(key.lower())

    def _build_tag_finding(self, key: str, problem: str, remedy: str) -> Finding:
        allowed = "letters, digits, spaces and _ . : / = + - @; keys that do not begin with aws:"
        return self.build_finding(f"tags.{key}", problem, given=key, allowed=allowed, remedy=remedy)
