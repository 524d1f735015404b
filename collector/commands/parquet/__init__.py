"""The command `evalstream parquet`: the ledger and the labels as files that a warehouse reads."""
