"""A store as S3 is, for tests: objects in memory, written in one request or in parts."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit


class S3Stub:
    """`objects` are those that are complete, by bucket/key."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.parts: dict[str, dict[int, bytes]] = {}
        self.refuses = False
        self.port = 0

    @property
    def url(self) -> str:
        return f"s3://bucket/evalstream?endpoint_override=127.0.0.1:{self.port}&scheme=http&region=eu-central-1"

    @contextmanager
    def serve(self) -> Iterator[None]:
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_arguments: object) -> None:
                """Nothing."""

            def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
                self.send_response(status)
                for name, value in {"Content-Length": str(len(body)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def content(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                content = b""
                while size := int(self.rfile.readline().partition(b";")[0], 16):
                    content += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return content

            def take(self) -> None:
                address = urlsplit(self.path)
                query, key = parse_qs(address.query, keep_blank_values=True), unquote(address.path).lstrip("/")
                body = self.content()
                if self.headers.get("x-amz-decoded-content-length"):
                    body = dechunked(body)
                if stub.refuses:
                    return self.answer(403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
                match self.command:
                    case "POST" if "uploads" in query:
                        stub.parts[key] = {}
                        upload = (
                            b"<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>"
                        )
                        return self.answer(200, upload)
                    case "POST" if "uploadId" in query:
                        stub.objects[key] = b"".join(part for _, part in sorted(stub.parts.pop(key).items()))
                        return self.answer(200, b"<CompleteMultipartUploadResult></CompleteMultipartUploadResult>")
                    case "PUT" if "partNumber" in query:
                        stub.parts[key][int(query["partNumber"][0])] = body
                        return self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
                    case "PUT":
                        stub.objects[key] = body
                        return self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
                    case "HEAD" | "GET" if key in stub.objects:
                        return self.answer(200, stub.objects[key])
                    case "GET" if "list-type" in query:
                        return self.answer(200, b"<ListBucketResult><KeyCount>0</KeyCount></ListBucketResult>")
                    case _:
                        return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = take

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def dechunked(body: bytes) -> bytes:
    """The content of AWS's signed chunks."""
    content, rest = b"", body
    while rest:
        head, _, rest = rest.partition(b"\r\n")
        size = int(head.partition(b";")[0], 16)
        if not size:
            break
        content, rest = content + rest[:size], rest[size + 2 :]
    return content
