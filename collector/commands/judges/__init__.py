"""`evalstream compare judges`: several judges on labelled cases."""
