"""Exporters of evaluations; one file each."""
