"""Application Auto Scaling: targets, policies, and schedules, by the rules of servable_scaling."""
