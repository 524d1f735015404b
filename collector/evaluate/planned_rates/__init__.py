"""Sampling rates that hold a mean's standard error, from what was judged before: `sample: auto`."""
