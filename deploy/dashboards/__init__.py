"""The Grafana dashboards as code: `make dashboards` writes them as JSON, which is committed."""
