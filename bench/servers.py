# SPDX-License-Identifier: BSD-3-Clause
"""Servers, clients and an etcd for the Python programs in bench/: the one base of all of them."""
import os
import shlex
import socket
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
# Seconds until a server must answer, or a condition must hold.
PATIENCE = 300
used_ports = set()


def free_port():
    """A free port, at most 55,000: a stock server in cluster mode adds 10,000 for the port of its bus. None is given
    twice."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port <= 55000 and port not in used_ports:
            used_ports.add(port)
            return port


def wait_for(what, is_so, pause=0.005, patience=PATIENCE):
    until = time.monotonic() + patience
    while not is_so():
        if time.monotonic() > until:
            sys.exit(f"gave up waiting for {what}")
        time.sleep(pause)


def bound(processors):
    """The start of a command line that runs on these processors."""
    return ["taskset", "-c", processors] if processors else []


def encode(*parts):
    parts = [p if isinstance(p, bytes) else str(p).encode() for p in parts]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)


class ReplyError(Exception):
    """An error reply, without its hyphen."""


class Client:
    """A connection. Replies are texts (bytes, if `raw`), numbers, lists, None and `ReplyError`, which is not raised."""

    def __init__(self, port, timeout=PATIENCE, raw=False):
        self.port, self.raw = port, raw
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", 1 << 20)

    def text(self, content):
        return content if self.raw else content.decode(errors="replace")

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the connection was closed")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return ReplyError(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.text(self.file.read(int(rest) + 2)[:-2])
        if kind in b"*~%>":
            return None if rest == b"-1" else [self.read() for _ in range(int(rest) * (2 if kind == b"%" else 1))]
        return self.text(rest)

    def pipeline(self, requests):
        """The replies to these requests, each of which is a tuple of words."""
        self.socket.sendall(b"".join(encode(*request) for request in requests))
        return [self.read() for _ in requests]

    def call(self, *words):
        return self.pipeline([words])[0]

    def insist(self, *words):
        """The reply; an error ends the run."""
        reply = self.call(*words)
        if isinstance(reply, ReplyError):
            sys.exit(f"{' '.join(map(str, words))[:100]}: {reply}")
        return reply

    def info(self, *sections):
        """The fields of INFO."""
        text = self.insist("INFO", *sections)
        text = text.decode() if self.raw else text
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    """A server process. A command line with `{port}` (and `{dir}`) is used as it is; otherwise the port, the folder and
    persistence off are appended. It is ready once it answers and has loaded its data."""

    def __init__(self, line, folder, *more, processors=None, container=None):
        self.line, self.folder, self.port = line, folder, free_port()
        self.argv = (container.start() if container else []) + bound(processors) + self.words(line) + [*more]
        self.start()

    def words(self, line):
        if "{port}" in line:
            return shlex.split(line.replace("{port}", str(self.port)).replace("{dir}", self.folder))
        return shlex.split(line) + ["--port", str(self.port), "--dir", self.folder, "--save", ""]

    def launch(self, *more, output=subprocess.DEVNULL):
        # In its own folder: a stock server leaves files where it was started.
        argv = [absolute(word) for word in (*self.argv, *more)]
        self.process = subprocess.Popen(argv, stdout=output, stderr=output, cwd=self.folder)

    def start(self, *more):
        began = time.monotonic()
        self.launch(*more)
        while not self.answers():
            if self.process.poll() is not None:
                sys.exit(f"{self.line}: exited at startup with status {self.process.returncode}")
            if time.monotonic() - began > PATIENCE:
                sys.exit(f"{self.line}: does not answer")
            time.sleep(0.01)
        self.start_seconds = time.monotonic() - began

    def answers(self):
        try:
            self.client = Client(self.port)
            return self.client.call("PING") == "PONG"
        except OSError:
            return False

    def connect(self):
        """A connection for bytes."""
        return socket.create_connection(("127.0.0.1", self.port), 30)

    def send(self, requests):
        """Sends encoded requests whose replies are one line each; an error ends the run."""
        batch = []

        def drain():
            self.client.socket.sendall(b"".join(batch))
            for _ in batch:
                if isinstance(reply := self.client.read(), (ReplyError, list)):
                    sys.exit(f"{self.line}: unexpected reply {reply!r}")
            batch.clear()
        for request in requests:
            batch.append(request)
            if len(batch) == 100:
                drain()
        drain()

    def seconds(self):
        """User and system time of the process so far."""
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def resident(self):
        """Bytes of the process and its children; shared pages count once (Pss). Computing Pss takes the kernel long and
        stalls the process, so for a process without children only the resident size is read."""
        pid = self.process.pid
        children = open(f"/proc/{pid}/task/{pid}/children").read().split()
        if not children:
            return int(open(f"/proc/{pid}/statm").read().split()[1]) * PAGE
        total = 0
        for one in [pid, *children]:
            try:
                for line in open(f"/proc/{one}/smaps_rollup"):
                    if line.startswith("Pss:"):
                        total += int(line.split()[1]) * 1024
            except OSError:
                pass
        return total

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class Container:
    """A control group with a memory limit, as containers have one: what exceeds it is killed by the kernel. Needs root."""

    def __init__(self, limit_bytes):
        first = os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")
        base, limit, self.peak_file = ("memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes") if first else (
            "", "memory.max", "memory.peak")
        self.path = os.path.join("/sys/fs/cgroup", base, f"braid-bench-{os.getpid()}")
        os.mkdir(self.path)
        with open(os.path.join(self.path, limit), "w") as file:
            file.write(str(limit_bytes))

    def start(self):
        """The start of a command line that runs in the group."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh"]

    def peak(self):
        """The most that the group has used, in bytes, with what the kernel caches for it."""
        return int(open(os.path.join(self.path, self.peak_file)).read())

    def close(self):
        os.rmdir(self.path)


def absolute(word):
    """A word of a command line; a path of an existing file is no longer relative to the caller's folder."""
    is_path = (os.path.sep in word or word.endswith(".conf")) and os.path.exists(word)
    return os.path.abspath(word) if is_path else word


def start_etcd(folder, processors=None):
    """An etcd (on PATH): its process, and the port for clients."""
    port, peer = free_port(), f"http://127.0.0.1:{free_port()}"
    url = f"http://127.0.0.1:{port}"
    argv = bound(processors) + [
        "etcd", "--data-dir", os.path.join(folder, "etcd"), "--listen-client-urls", url, "--advertise-client-urls", url,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
    return subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL), port
