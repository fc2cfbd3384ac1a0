"""The rules of alarms and Application Auto Scaling: pure, without clock, network or AWS SDK.

The local AWS follows these rules, and `servable rehearse` simulates a day with them.
"""
