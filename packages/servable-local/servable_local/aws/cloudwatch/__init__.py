"""CloudWatch's metrics and alarms, evaluated by its published rules; dashboards remain moto's."""
