"""Alerts without Prometheus: one process reads the evaluations log and notifies when scores leave their target."""
