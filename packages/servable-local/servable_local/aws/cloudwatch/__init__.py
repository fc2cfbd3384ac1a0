"""CloudWatch's metrics and alarms, evaluated by its published rules; moto provides dashboards."""
