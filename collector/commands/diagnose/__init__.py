"""`evalstream diagnose`: which part of the traffic explains that scores fell."""
