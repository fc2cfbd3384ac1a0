"""The resource types that can be deployed, one small file each.

Each makes its resource by calls to the service, as CloudFormation does; a type without a
file here fails to deploy, it is never skipped.
"""
