"""The command `evalstream export parquet`: the ledger and the labels as files that a warehouse reads."""
