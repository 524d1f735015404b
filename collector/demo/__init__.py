"""The whole system on one machine, with an application to watch."""
