"""Rules about variants, their models, the endpoint's name and tags, and shadow variants."""

import unicodedata
from collections.abc import Sequence

from infra.parameters.finding import suggest_name
from infra.parameters.variant import Variant
from infra.preflight.rule import EachVariantRule, Findings, Parts, Rule

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
MOST_VARIANTS = 10
MACHINES = ("instance_type", "instance_pools", "serverless")


class VariantModelUnknown(Rule):
    """A variant's model must be defined in this file."""

    def find_problems(self) -> Findings:
        models = self.candidate.model_names
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

    def find_problems(self, name: str, variant: Variant) -> Findings:
        given = [machine for machine in MACHINES if getattr(variant, machine) is not None]
        if not given:
            yield self.build_finding(
                f"variants.{name}.instance_type",
                "one of instance_type, instance_pools and serverless is required",
                remedy=f'add instance_type = "ml.c5.xlarge" to [variants.{name}]',
                reads=tuple(f"variants.{name}.{machine}" for machine in MACHINES),
            )
        elif len(given) > 1:
            problem = f"{' and '.join(given)} exclude each other"
            key, remedy = f"variants.{name}.{given[0]}", f"remove {' or '.join(given)}"
            yield self.build_finding(key, problem, given=None, remedy=remedy)


class NoVariant(Rule):
    """An endpoint needs a variant, and traffic for it; a file without an endpoint needs a batch.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    """

    example = "variants.primary.weight = 0"

    def find_problems(self) -> Findings:
        production, written = self.environment.production_variants, self.loaded.source.values
        count = len(self.environment.variants)
        if not (written.get("variants") or written.get("batch")):
            problem = "there is neither a variant nor a batch to deploy"
            remedy = "add [variants.primary] with model and instance_type"
            yield self.build_finding("variants", problem, remedy=remedy)
        elif count > MOST_VARIANTS:
            yield self.build_finding(
                "variants",
                f"{count} variants are too many",
                given=count,
                allowed=f"1 to {MOST_VARIANTS} tables [variants.NAME]",
                remedy="remove some, or move them to another environment",
            )
        elif production and not any(variant.weight for variant in production.values()):
            problem = "every variant has weight 0: no variant would get traffic"
            key = f"variants.{next(iter(production))}.weight"
            yield self.build_finding(key, problem, remedy="give one a weight")


class EndpointNameShared(Rule):
    """Two stacks cannot own one endpoint: the second fails to create it, or a rename in one deletes it.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpoint.html
    (EndpointName: unique within an AWS Region in your AWS account)
    """

    key = "endpoint.name"
    problem = (
        "{self.environment.endpoint.name} is also the endpoint of {others}, in the same account and "
        "region"
    )
    remedy = "rename one of them"
    reads = ("account", "region")

    def find_problems(self) -> Findings:
        if self.loaded.sharing:
            yield self.build_finding(others=", ".join(self.loaded.sharing))


class ShadowRule(Rule):
    """A rule about shadow variants: `find_problems` takes the first one's name and all names."""

    def list_parts(self) -> Parts:
        shadows = [name for name, variant in self.environment.variants.items() if variant.shadow]
        return [(shadows[0], shadows)] if shadows else []


class ShadowPair(ShadowRule):
    """An endpoint with a shadow variant has exactly one production variant and one shadow.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_CreateEndpointConfig.html
    (ShadowProductionVariants: one variant for each of both)
    """

    key = "variants.{shadow}.shadow"
    problem = "there are {count} shadow and {others} production variants (shadow = true in {names})"
    remedy = "keep one of each"
    reads = ("variants",)

    def find_problems(self, shadow: str, shadows: Sequence[str]) -> Findings:
        count, others = len(shadows), len(self.environment.production_variants)
        if (count, others) != (1, 1):
            names = ", ".join(shadows)
            yield self.build_finding(given=None, count=count, others=others, names=names)


class ShadowExcluded(ShadowRule):
    """SageMaker rejects a shadow variant for asynchronous and for multi-model endpoints.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/shadow-tests-exclusions.html
    """

    problem = "{what} cannot be combined with the shadow variant {shadow}"
    remedy = "remove it, or variants.{shadow}"
    reads = ("variants.{shadow}.shadow",)

    def find_problems(self, shadow: str, shadows: Sequence[str]) -> Findings:
        if self.environment.asynchronous is not None:
            yield self.build_finding("asynchronous", what="[asynchronous]")
        for name, variant in self.environment.variants.items():
            model = self.environment.models.get(variant.model)
            if model is not None and model.multi_model is not None:
                what = f"multi_model of variant {name}"
                yield self.build_finding(f"variants.{name}.model", given=None, what=what)


class ShadowWeight(ShadowRule):
    """A shadow's weight relative to the production variant's is the share copied: at most equal.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/shadow-tests.html (a portion of the
    requests is replicated); docs/decisions/0019 (how weights say it)
    """

    key = "variants.{name}.weight"
    problem = "the shadow's weight {weight:g} is above that of its production variant, {most:g}"
    allowed = "above 0, at most {most:g}"
    remedy = "lower it; with equal weights every request is copied"

    def find_problems(self, shadow: str, shadows: Sequence[str]) -> Findings:
        production = self.environment.production_variants.values()
        most = max((variant.weight for variant in production), default=None)
        for name in shadows:
            weight = self.environment.variants[name].weight
            if most is not None and not 0 < weight <= most:
                yield self.build_finding(name=name, weight=weight, most=most)


MOST_TAGS = 50


class TagRefused(Rule):
    """AWS accepts 50 tags of letters, digits, spaces and _ . : / = + - @; keys with aws: are reserved.

    IAM, whose roles are tagged too, treats Owner and owner as the same key, and rejects both together.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Tag.html (2026-11-22),
    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html (2026-11-22)
    """

    key = "tags.{tag}"
    allowed = "letters, digits, spaces and _ . : / = + - @; keys that do not begin with aws:"

    def find_problems(self) -> Findings:
        tags, count = self.environment.tags, len(self.environment.tags)
        if count > MOST_TAGS:
            problem, allowed = f"{count} tags are too many", f"at most {MOST_TAGS}"
            remedy = "remove some"
            yield self.build_finding("tags", problem, given=count, allowed=allowed, remedy=remedy)
        seen: set[str] = set()
        for tag, value in tags.items():
            characters = {
                repr(character)
                for character in tag + value
                if character not in "_.:/=+-@" and unicodedata.category(character)[0] not in "LNZ"
            }
            faults = {}
            if characters:
                listed = ", ".join(sorted(characters))
                faults["change it"] = f"{tag} = {value!r} contains {listed}"
            if tag.lower().startswith("aws:"):
                faults["rename it"] = f"{tag} begins with aws:"
            if tag.lower() in seen:
                faults["remove one"] = f"{tag} exists already with different capitalization"
            for remedy, fault in faults.items():
                yield self.build_finding(problem=fault, given=tag, remedy=remedy, tag=tag)
            seen.add(tag.lower())
