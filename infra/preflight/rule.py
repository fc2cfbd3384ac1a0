"""What a preflight rule is."""

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from infra.parameters.environment import Environment
from infra.parameters.finding import Finding, Severity
from infra.parameters.loading import Loaded
from infra.preflight.placement import Placement, placements


class Rule(ABC):
    """One thing that would fail or hurt after ten minutes of deploying.

    The docstring says why, and names the source.
    """

    id: ClassVar[str]
    severity: ClassVar[Severity] = Severity.ERROR
    acknowledgeable: ClassVar[bool] = False
    """Whether `[acknowledge]` may accept it: only where AWS itself would go ahead."""
    example: ClassVar[str] = ""
    """Lines of an environment file that break it, for docs/rules.md; a comment where it takes files."""

    @abstractmethod
    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        """Yields a finding for every place that breaks the rule."""

    def finding(
        self,
        loaded: Loaded,
        key: str,
        given: Any,
        problem: str,
        *,
        allowed: str = "",
        remedy: str,
        reads: tuple[str, ...] = (),
    ) -> Finding:
        return Finding(
            rule=self.id,
            severity=self.severity,
            file=loaded.origin(key),
            key=key,
            given=given,
            problem=problem,
            allowed=allowed,
            remedy=remedy,
            acknowledgeable=self.acknowledgeable,
            reads=reads,
        )

    def not_checked(self, loaded: Loaded, key: str, needs: str) -> Finding:
        """What stands in for the rule where it lacks an input: never a pass."""
        return Finding(
            rule=self.id,
            severity=Severity.NOT_CHECKED,
            file=loaded.origin(key),
            key=key,
            problem=f"{self.id} is not checked",
            remedy=f"give {needs}",
        )

    @classmethod
    def why(cls) -> str:
        """The docstring without its source, as one paragraph."""
        return " ".join(inspect.cleandoc(cls.__doc__ or "").split("Source:")[0].split())

    @classmethod
    def source(cls) -> str:
        """What the docstring names as its source; empty where the reason is the file itself."""
        found = re.search(r"Source:(.*)", inspect.cleandoc(cls.__doc__ or ""), re.DOTALL)
        return " ".join(found[1].split()) if found else ""


class VariantRule(Rule):
    """A rule about one variant on its machine."""

    def check(self, loaded: Loaded, environment: Environment) -> Iterator[Finding]:
        yield from self.check_placed(loaded, environment, placements(loaded, environment))

    def check_placed(
        self, loaded: Loaded, environment: Environment, placed: Sequence[Placement]
    ) -> Iterator[Finding]:
        """The same for placements that are at hand already."""
        for one in placed:
            yield from self.look(loaded, environment, one)

    def size_unknown(self, loaded: Loaded, placement: Placement) -> Iterator[Finding]:
        """Not checked, where the file does not say it; that a folder is bad is a finding already."""
        key = f"models.{placement.variant.model}"
        if placement.model.artifact is not None:
            yield self.not_checked(loaded, f"{key}.artifact", f"{key}.artifact.size_gib")
        elif placement.model.multi_model is not None:
            needs = "a load test: nobody knows which of several models are loaded together"
            yield self.not_checked(loaded, f"{key}.multi_model", needs)

    @abstractmethod
    def look(
        self, loaded: Loaded, environment: Environment, placement: Placement
    ) -> Iterator[Finding]:
        """Yields a finding for everything about this variant that breaks the rule."""
