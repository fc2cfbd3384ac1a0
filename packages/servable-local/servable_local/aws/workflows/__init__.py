"""Step Functions and EventBridge Scheduler, which start a transform job and wait for it."""
