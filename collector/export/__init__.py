"""From evaluations to the outside; one file per exporter."""
