"""Telemetry of the service itself: metrics, health and log lines."""
