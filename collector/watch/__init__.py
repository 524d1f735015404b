"""Alerts without Prometheus: one process reads the evaluations log and tells when scores have left their target."""
