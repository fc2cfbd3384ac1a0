"""Rules about what an environment file names: paths that nothing has, and types that nothing uses."""

from collections.abc import Iterator

from infra.parameters.finding import Severity, suggest_path
from infra.preflight.rule import Findings, Rule

_WEB = ("https://", "http://")


class PriceUnused(Rule):
    """A price for a type that no variant and no batch runs on is never used; it is often misspelled."""

    severity = Severity.WARNING
    example = 'prices.instance_usd_per_hour = { "ml.c5.xlage" = 0.2 }'
    key = "prices.instance_usd_per_hour"
    remedy = "correct the type, or take its price out"

    def look(self) -> Findings:
        environment = self.environment
        stated = environment.prices.instance_usd_per_hour
        used = {
            instance
            for variant in environment.variants.values()
            for instance in variant.instance_types
        } | {batch.instance_type for batch in environment.batch.values()}
        for instance in sorted(stated.keys() - used):
            # What a base file states for several environments is used by some of them.
            path = (*self.key.split("."), instance)
            if self.loaded.source.origins.get(path) == self.loaded.file:
                yield self.finding(
                    problem=f"there is a price for {instance}, on which nothing of this file runs",
                    given=instance,
                    allowed=", ".join(sorted(used)) or "none: nothing runs on instances",
                )


class PathMissing(Rule):
    """A path that leads nowhere is noticed only by the command, or the person, who needs it."""

    severity = Severity.WARNING
    example = 'alarms.runbook = "docs/nowhere.md"'
    remedy = "correct the path, or write the file"

    def look(self) -> Findings:
        for key, path, allowed in self._paths():
            if not (self.loaded.root / path).exists():
                remedy = suggest_path(path, self.loaded.root) or self.remedy
                problem = f"there is no file or folder {path}"
                yield self.finding(key, problem, given=path, allowed=allowed, remedy=remedy)

    def _paths(self) -> Iterator[tuple[str, str, str]]:
        """Yield key, path, and what is allowed for each path that the file states."""
        environment = self.environment
        runbook, captured = environment.alarms.runbook, environment.replay.captured
        stated = self.loaded.source.origins.get(("alarms", "runbook")) is not None
        if stated and not runbook.startswith(_WEB):
            yield "alarms.runbook", runbook, "an https address, or a path in the project"
        if captured is not None and not captured.startswith("s3://"):
            allowed = "s3://BUCKET/PREFIX, or a file or folder of the project"
            yield "replay.captured", captured, allowed
        # With a scaling table scaling-behind-traffic reads the day, and says what is wrong with it.
        day = environment.traffic.day
        if day is not None and not any(one.scaling for one in environment.tables.values()):
            yield "traffic.day", str(day), "a file of minute,requests in the project"
