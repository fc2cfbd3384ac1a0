"""CloudFormation: stacks, change sets, deployments, rollbacks.

The CloudFormation of moto skips what it does not know, orders by reference only,
does not carry a replacement to what depends on it and never rolls back; this one
takes its place. Resources are made as AWS makes them, by calls to their services
(servable_local/aws/resources/).
"""
