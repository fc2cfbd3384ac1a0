"""The resource types that can be deployed, one module for each service.

Each makes its resource by calls to the service, as CloudFormation does; a type without a
class here fails to deploy, it is never skipped.
"""
