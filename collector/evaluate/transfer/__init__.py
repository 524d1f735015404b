"""The state of a partition as records, which a copy of the logs hands to the partitions of another log."""
