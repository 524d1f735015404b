"""Hash draws, strata and populations: which turns and conversations are judged, with which probability."""
