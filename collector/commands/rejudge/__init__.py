"""`evalstream rejudge`: evaluations of the past, requested of the service within a limit of US dollars."""
