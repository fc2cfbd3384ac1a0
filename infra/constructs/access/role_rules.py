"""A company's rules for every role that a stack creates: IAM path and permissions boundary."""

import hashlib
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_iam as iam
from constructs import Construct

from infra.parameters.endpoint import Security


@dataclass(frozen=True, kw_only=True)
class RoleRules:
    """IAM path and permissions boundary; None means IAM's defaults, path / and no boundary."""

    path: str | None = None
    boundary_arn: str | None = None

    @classmethod
    def from_security(cls, security: Security) -> "RoleRules":
        return cls(path=security.iam_path, boundary_arn=security.permissions_boundary)

    def properties(self, scope: Construct) -> dict[str, Any]:
        """Return the properties that an `iam.Role` in `scope` needs to follow the rules."""
        rules: dict[str, Any] = {"path": self.path} if self.path else {}
        if self.boundary_arn:
            rules["permissions_boundary"] = iam.ManagedPolicy.from_managed_policy_arn(
                scope, "Boundary", self.boundary_arn
            )
        return rules

    @property
    def suffix(self) -> str:
        """Return the suffix of roles' IDs: a role with a different path must be a new resource."""
        return hashlib.sha256(self.path.encode()).hexdigest()[:8] if self.path else ""
