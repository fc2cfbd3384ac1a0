"""Rules about tags that AWS refuses."""

import unicodedata

from infra.parameters.finding import Finding
from infra.preflight.rule import Findings, Rule

MOST_TAGS = 50


class TagRefused(Rule):
    """AWS takes 50 tags of letters, digits, spaces and _ . : / = + - @; keys with aws: are reserved.

    IAM, whose roles are tagged too, treats Owner and owner as the same key, and refuses both together.
    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Tag.html (2026-11-22),
    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html (2026-11-22)
    """

    example = 'tags = { "aws:owner" = "ranking" }'

    def look(self) -> Findings:
        count = len(self.environment.tags)
        if count > MOST_TAGS:
            yield self.finding(
                "tags",
                f"{count} tags are too many",
                given=count,
                allowed=f"at most {MOST_TAGS}",
                remedy="take some out",
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
                yield self._refused(key, holds, "change it")
            if key.lower().startswith("aws:"):
                yield self._refused(key, f"{key} begins with aws:", "rename it")
            if key.lower() in seen:
                yield self._refused(key, f"{key} exists already in another case", "take one out")
            seen.add(key.lower())

    def _refused(self, key: str, problem: str, remedy: str) -> Finding:
        allowed = "letters, digits, spaces and _ . : / = + - @; keys that do not begin with aws:"
        return self.finding(f"tags.{key}", problem, given=key, allowed=allowed, remedy=remedy)
