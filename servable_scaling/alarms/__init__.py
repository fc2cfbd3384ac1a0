"""How CloudWatch decides on an alarm: statistics, metric math, M of N, composite rules."""
