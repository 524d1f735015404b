"""From a configuration to what alerts on its scores: rules for Prometheus and Grafana, routes for Alertmanager."""
