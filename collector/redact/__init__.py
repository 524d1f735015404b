"""Takes personal data and secrets out of texts before they are stored or shown to a judge. Pure: no clock, no I/O."""
