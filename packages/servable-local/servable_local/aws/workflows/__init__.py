"""Step Functions and EventBridge Scheduler: what starts a transform job and waits for it."""
