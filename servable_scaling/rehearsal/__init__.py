"""A day of traffic against policies, alarms and instances, computed minute by minute. Pure."""
