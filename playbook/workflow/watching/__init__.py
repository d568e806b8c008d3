"""A run that is still going: following it, telling an incident once, alerting."""
