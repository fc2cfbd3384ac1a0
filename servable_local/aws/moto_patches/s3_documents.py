"""S3: documents of requests, held against the shapes that AWS's own model states.

Upstream (moto 5.2.5): a document that lacks a member, or has a value that AWS does not know, is kept, or ends
in an error of moto's own. AWS answers MalformedXML, as recorded: tests/servable_local/aws/aws_answers.jsonl.
"""

from typing import Any

from moto.s3.exceptions import MalformedXML

from servable_local.aws.loopback import service_model
from servable_local.aws.moto_patches.object_refusals import document

# Members that AWS wants and its model does not, by the shape.
_WANTED = {
    "ObjectLockConfiguration": ("ObjectLockEnabled",),
    "ObjectLockRule": ("DefaultRetention",),
    "DefaultRetention": ("Mode",),
    "ObjectLockRetention": ("Mode", "RetainUntilDate"),
    "ObjectLockLegalHold": ("Status",),
    "ServerSideEncryptionRule": ("ApplyServerSideEncryptionByDefault",),
}
# Lists of which AWS takes one member.
_SINGLE = {"OwnershipControlsRules", "ServerSideEncryptionRules"}
# What moto itself reads, and refuses in AWS's words: a canned list needs no document.
_READ_BY_MOTO = {"PutBucketAcl", "PutObjectAcl", "PutBucketPolicy", "PutBucketVersioning"}


def check_document(operation: str, body: bytes) -> None:
    """Raises MalformedXML where the body of the request is no document of the operation."""
    shape = service_model("s3").operation_model(operation).input_shape
    payload = shape.serialization.get("payload") if shape else None
    if payload is None or operation in _READ_BY_MOTO:
        return
    if operation in ("PutBucketTagging", "PutObjectTagging") and b"TagSet" not in body:
        return  # which is to have no tags
    if not _fits(shape.members[payload], document(body)):
        raise MalformedXML()


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
    return not getattr(shape, "enum", None) or (element.text or "") in shape.enum
