"""S3: documents of requests, held against the shapes that AWS's own model states.

Upstream (moto 5.2.5): a document that lacks a member, or has a value that AWS does not know, is kept, or ends
in an error of moto's own; tags and lists of access may be of any letters. AWS's refusals were recorded:
tests/servable_local/aws/aws_answers.jsonl.
"""

import re
from collections.abc import Mapping
from typing import Any

from moto.s3.exceptions import MalformedXML

from servable_local.aws.loopback import service_model
from servable_local.aws.moto_patches.object_inputs import S3RefusedError
from servable_local.aws.moto_patches.object_refusals import document

# Members that AWS wants and its model does not, by the shape.
_WANTED = {
    "ObjectLockConfiguration": ("ObjectLockEnabled",),
    "ObjectLockRule": ("DefaultRetention",),
    "DefaultRetention": ("Mode",),
    "ObjectLockRetention": ("Mode", "RetainUntilDate"),
    "ObjectLockLegalHold": ("Status",),
    "FilterRule": ("Name", "Value"),
    "AccessControlPolicy": ("Grants", "Owner"),
    "ServerSideEncryptionRule": ("ApplyServerSideEncryptionByDefault",),
}
# Lists of which AWS takes one member.
_SINGLE = {"OwnershipControlsRules", "ServerSideEncryptionRules"}
# What moto itself reads, and refuses in AWS's words; and sets of values of which AWS takes more.
_READ_BY_MOTO = {"PutBucketPolicy", "PutBucketVersioning"}
_OPEN = {"BucketLocationConstraint", "BucketLogsPermission", "FilterRuleName"}
# https://docs.aws.amazon.com/AmazonS3/latest/userguide/tagging-managing.html (2026-11-28)
_TAG_KEY, _TAG_VALUE = re.compile(r"[\w .:/=+@-]{1,128}"), re.compile(r"[\w .:/=+@-]{0,256}")
_GROUPS = {
    f"http://acs.amazonaws.com/groups/{name}"
    for name in ("global/AllUsers", "global/AuthenticatedUsers", "s3/LogDelivery")
}
_CANONICAL_ID = re.compile(r"[0-9a-f]{64}")
_TYPE = "{http://www.w3.org/2001/XMLSchema-instance}type"


def check_document(operation: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Raises where the body of the request is no document of the operation, MalformedXML mostly."""
    if operation in ("PutBucketAcl", "PutObjectAcl"):
        _check_access(body, headers)
        return
    shape = service_model("s3").operation_model(operation).input_shape
    payload = shape.serialization.get("payload") if shape else None
    if payload is None or operation in _READ_BY_MOTO:
        return
    if operation in ("PutBucketTagging", "PutObjectTagging") and b"TagSet" not in body:
        return  # which is to have no tags
    root = document(body)
    if not _fits(shape.members[payload], root):
        raise MalformedXML()
    _check_tags(operation, root)
    for rule in root.iterfind(".//{*}FilterRule/{*}Name"):
        if rule.text not in ("prefix", "suffix"):
            message = "filter rule name must be either prefix or suffix"
            members = {"ArgumentName": "FilterRule.Name", "ArgumentValue": rule.text or ""}
            raise S3RefusedError("InvalidArgument", message, members)


def _check_tags(operation: str, root: Any) -> None:
    new = operation == "CreateBucket"
    seen = set()
    for tag in root.findall("{*}Tags/{*}Tag" if new else "{*}TagSet/{*}Tag"):
        key, value = tag.findtext("{*}Key", ""), tag.findtext("{*}Value", "")
        if new and key.startswith("aws:"):
            raise S3RefusedError(
                "InvalidTag",
                'User-defined tag keys can\'t start with "aws:". This prefix is reserved for system tags. '
                'Remove "aws:" from your tag keys and try again.',
            )
        if key.startswith("aws:"):
            of_bucket = operation == "PutBucketTagging"
            raise S3RefusedError(
                "InvalidTag",
                "System tags cannot be added/updated by requester"
                if of_bucket
                else "Your TagKey cannot be prefixed with aws:",
                {"TagKey": key},
            )
        if key in seen:
            message = "Cannot provide multiple Tags with the same key"
            raise S3RefusedError("InvalidTag", message, {"TagKey": key})
        seen.add(key)
        if not _TAG_KEY.fullmatch(key):
            message = "The TagKey you have provided is invalid"
            raise S3RefusedError("InvalidTag", message, {"TagKey": key})
        if not _TAG_VALUE.fullmatch(value):
            message = "The TagValue you have provided is invalid"
            raise S3RefusedError("InvalidTag", message, {"TagKey": key, "TagValue": value})


def _check_access(body: bytes, headers: Mapping[str, str]) -> None:
    granted = {name: headers[name] for name in _GRANTING if name in headers}
    canned = "x-amz-acl" in headers
    if canned and granted:
        message = "Specifying both Canned ACLs and Header Grants is not allowed"
        raise S3RefusedError("InvalidRequest", message)
    if body and (canned or granted):
        raise S3RefusedError("UnexpectedContent", "This request does not support content")
    if not (body or canned or granted):
        message = "Your request was missing a required header"
        raise S3RefusedError("MissingSecurityHeader", message, {"MissingHeaderName": "x-amz-acl"})
    for header, stated in granted.items():
        for part in stated.split(","):
            kind, _, value = part.strip().partition("=")
            if kind not in ("id", "uri", "emailAddress"):
                members = {"ArgumentName": header, "ArgumentValue": stated}
                message = "Argument format not recognized"
                raise S3RefusedError("InvalidArgument", message, members)
            _check_grantee(kind, value.strip('"'), kind)
    if not body:
        return
    root = document(body)
    if not _fits(service_model("s3").shape_for("AccessControlPolicy"), root):
        raise S3RefusedError("MalformedACLError", MalformedXML().message)
    for named in (*root.findall("{*}Owner"), *root.iterfind(".//{*}Grantee")):
        for tag, kind, place in (("ID", "id", "CanonicalUser/ID"), ("URI", "uri", "Group/URI")):
            if (known := named.findtext(f"{{*}}{tag}")) is not None:
                _check_grantee(kind, known, place)


_GRANTING = [
    f"x-amz-grant-{name}" for name in ("full-control", "read", "read-acp", "write", "write-acp")
]


def _check_grantee(kind: str, value: str, place: str) -> None:
    members = {"ArgumentName": place, "ArgumentValue": value}
    if kind == "uri" and value not in _GROUPS:
        raise S3RefusedError("InvalidArgument", "Invalid group uri", members)
    if kind == "id" and not _CANONICAL_ID.fullmatch(value):
        raise S3RefusedError("InvalidArgument", "Invalid id", members)


def _fits(shape: Any, element: Any) -> bool:
    if shape.type_name == "structure":
        children: dict[str, list[Any]] = {}
        for child in element:
            children.setdefault(child.tag.rpartition("}")[2], []).append(child)
        wanted = {*shape.required_members, *_WANTED.get(shape.name, ())}
        if shape.name == "DefaultRetention" and len(children.keys() & {"Days", "Years"}) != 1:
            return False
        for name, member in shape.members.items():
            flat = member.type_name == "list" and member.serialization.get("flattened")
            if member.serialization.get("xmlAttribute"):
                if element.get(_TYPE) not in member.enum:
                    return False
                continue
            tag = member.serialization.get("name", name)
            found = children.get(tag, [])
            if name in wanted and not found:
                return False
            if member.name in _SINGLE and len(found) > 1:
                return False
            if not all(_fits(member.member if flat else member, child) for child in found):
                return False
        return True
    if shape.type_name == "list":
        return all(_fits(shape.member, child) for child in element)
    return (
        not getattr(shape, "enum", None)
        or shape.name in _OPEN
        or (element.text or "") in shape.enum
    )
