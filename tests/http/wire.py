"""HTTP by hand: what is sent is exactly what the test says, and what comes back is read strictly."""

import json
import socket
import struct
import time

PATIENCE_S = 10


class Response:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers  # [(lower-case name, value)]
        self.body = body

    def header(self, name):
        values = [value for key, value in self.headers if key == name.lower()]
        assert len(values) <= 1, f"{name} came {len(values)} times"
        return values[0] if values else None

    def json(self):
        return json.loads(self.body)

    def check_error(self, status, *words):
        """Every error is JSON, with a reason, a type and the request's id."""
        assert self.status == status, (self.status, self.body)
        assert self.header("Content-Type") == "application/json"
        error = self.json()
        assert set(error) == {"error", "error_type", "request_id"}
        assert error["error"] and error["error_type"] and error["request_id"]
        assert self.header("X-Request-Id") == error["request_id"]
        for word in words:
            assert word in error["error"]
        return self


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())
        return self

    def reset(self):
        """Closes with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.rest += data
        return bool(data)

    def _line(self):
        while b"\r\n" not in self.rest:
            if not self._more():
                return None
        line, self.rest = self.rest.split(b"\r\n", 1)
        return line

    def read(self, head_only=False):
        """The next response; None when the connection has ended instead."""
        line = self._line()
        if line is None:
            assert not self.rest, f"half a response: {self.rest!r}"
            return None
        version, status = line.split(b" ")[:2]
        assert version in (b"HTTP/1.1", b"HTTP/1.0"), line
        headers = []
        while line := self._line():
            name, value = line.decode("latin-1").split(":", 1)
            headers.append((name.lower(), value.strip()))
        response = Response(int(status), headers, b"")
        if response.status == 100 or head_only:
            return response
        length = int(response.header("Content-Length"))
        while len(self.rest) < length:
            assert self._more(), "the body is cut"
        response.body, self.rest = self.rest[:length], self.rest[length:]
        return response

    def is_closed(self, within_s=PATIENCE_S):
        """Nothing more comes, and the server ends the connection."""
        self.socket.settimeout(within_s)
        try:
            return not self.rest and not self._more()
        except TimeoutError:
            return False


def get(path, *headers, method="GET", version="HTTP/1.1"):
    lines = [f"{method} {path} {version}", "Host: test", *headers, "", ""]
    return "\r\n".join(lines).encode()


def post(path, body, *headers, content_type="application/json", length=None):
    data = body if isinstance(body, bytes) else body.encode()
    lines = [f"POST {path} HTTP/1.1", "Host: test"]
    if content_type is not None:
        lines.append(f"Content-Type: {content_type}")
    lines += [f"Content-Length: {len(data) if length is None else length}", *headers, "", ""]
    return "\r\n".join(lines).encode() + data


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def post_chunked(path, *chunks, headers=()):
    lines = [f"POST {path} HTTP/1.1", "Host: test", "Content-Type: application/json"]
    lines += ["Transfer-Encoding: chunked", *headers, "", ""]
    return "\r\n".join(lines).encode() + b"".join(map(chunk, chunks)) + b"0\r\n\r\n"


def eventually(condition, within_s=PATIENCE_S):
    """Waits until condition() holds; its last value."""
    end = time.monotonic() + within_s
    while not (value := condition()) and time.monotonic() < end:
        time.sleep(0.005)
    return value
