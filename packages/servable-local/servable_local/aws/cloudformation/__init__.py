"""CloudFormation: stacks, change sets, deployments, rollbacks.

This package replaces moto's CloudFormation, which skips unknown properties, orders by reference
only, doesn't propagate a replacement to dependent resources, and never rolls back. Like AWS, it
creates resources by calls to their services (servable_local/aws/resources/).
"""
