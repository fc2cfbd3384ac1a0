"""CloudWatch's evaluation of alarms: statistics, metric math, M of N, composite rules."""
