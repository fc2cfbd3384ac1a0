"""Alarms and Application Auto Scaling as rules: pure, with no clock, no network and nothing of AWS's SDK.

The local AWS acts by these rules, and `servable rehearse` simulates a day with them.
"""
