"""Alerting rules of a configuration, for Prometheus and Grafana, and routes for Alertmanager."""
