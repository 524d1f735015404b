"""OTLP as protobuf and JSON, and its neutral form."""
