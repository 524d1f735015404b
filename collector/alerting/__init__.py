"""Alerts on scores: rules for Prometheus and Grafana, and a watcher for installations without them."""
