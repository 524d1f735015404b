"""Which part of the traffic explains that scores fell."""
