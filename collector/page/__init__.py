"""The page: monitors, evaluations and conversations to look at, and labels to give. A stage over two of the logs."""
