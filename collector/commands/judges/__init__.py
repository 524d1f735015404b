"""`evalstream judges`: several judges on labelled cases."""
