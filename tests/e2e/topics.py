"""Source topics as the OpenTelemetry Collector fills them, and internal topics of a test's own."""

from __future__ import annotations

import secrets
from typing import Any

from kafka import KafkaAdminClient, KafkaProducer
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from payloads import requests

PARTITIONS = 3


class Topics:
    """Topics whose names nobody else uses."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.name = f"test-{secrets.token_hex(4)}"
        admin = KafkaAdminClient(bootstrap_servers=bootstrap)
        sizes = {"num_partitions": PARTITIONS, "replication_factor": 1}
        admin.create_topics({f"{self.name}.otlp_spans": sizes, f"{self.name}.otlp_logs": sizes})
        admin.close()

    def log_settings(self) -> dict[str, Any]:
        kafka: dict[str, Any] = {"bootstrap_servers": [self.bootstrap], "prefix": self.name, "partitions": PARTITIONS}
        kafka["group_instance_id"] = "the-only-one"
        return {"kind": "kafka", "kafka": kafka}

    def source_settings(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": [self.bootstrap],
            "traces": [f"{self.name}.otlp_spans"],
            "logs": [f"{self.name}.otlp_logs"],
            "group": self.name,
            "group_instance_id": "the-only-one",
        }

    def produce_payloads(self, dialects: tuple[str, ...]) -> None:
        """One message per signal and dialect: all requests of it merged, so that many traces share a message."""
        producer = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all")
        for dialect in dialects:
            spans, records = ExportTraceServiceRequest(), ExportLogsServiceRequest()
            for name, body in requests(dialect):
                (records if "logs" in name else spans).MergeFromString(body)
            producer.send(f"{self.name}.otlp_spans", spans.SerializeToString())
            if records.resource_logs:
                producer.send(f"{self.name}.otlp_logs", records.SerializeToString())
        producer.flush()
        producer.close()
