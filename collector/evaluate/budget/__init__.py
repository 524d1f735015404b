"""Spending limits: reservations, windows, and the sampling rates that follow from them."""
