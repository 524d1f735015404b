"""The page: monitors, evaluations and conversations to look at and to label. A stage over three logs."""
