"""The data that a restart needs: replay points, the ledger, control records, generated steps."""
