"""Computes the fingerprint of a resource that CloudFormation can only replace."""

import hashlib
import json
from typing import Any

import aws_cdk as cdk


def compute_fingerprint(resource: cdk.CfnResource, *named: Any) -> str:
    """Return the SHA-256 of the properties in the template, without tags, which are updated in place.

    `named` has overrides of properties, or the fingerprints of resources that the properties only
    refer to: a model's name is the same attribute in the template before and after its replacement.
    """
    properties = cdk.Stack.of(resource).resolve(resource._cfn_properties)
    properties.pop("tags", None)
    decides = json.dumps([properties, *named], sort_keys=True)
    return hashlib.sha256(decides.encode()).hexdigest()
