"""What was deployed when, and the way back to it."""

from operations.history.deployments import Deployment, deployments
from operations.history.restoring import Restored, restored, write

__all__ = ["Deployment", "Restored", "deployments", "restored", "write"]
