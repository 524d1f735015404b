"""The material that a judge is shown of a case: as JSON, between markers, within a budget."""
