"""Application Auto Scaling: targets, policies and schedules that act, by the rules of servable_scaling."""
