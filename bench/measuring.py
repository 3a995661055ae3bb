# SPDX-License-Identifier: BSD-3-Clause
"""Measures a table of commands: processor time per command of servers side by side (see servers.py for the servers).

Each server runs on processor 0 with persistence off, the load generator (redis-benchmark's options; the variable BENCH
names another program) on processor 1, together with the listening clients.
"""
import argparse
import os
import selectors
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Callable, NamedTuple

from servers import Server, encode

BENCH = os.environ.get("BENCH", "redis-benchmark")
CONNECTIONS = 50
DATA = "x" * 32


class Row(NamedTuple):
    """A command to measure, as for redis-benchmark; `__data__` stands for 32 bytes."""
    name: str
    command: str
    count: int
    # The range of __rand_int__.
    keys: int = 1
    # Requests to send beforehand, with one-line replies.
    before: Callable | None = None
    # More options of the load generator.
    options: tuple = ()
    # Number of clients that listen to `channel`; the time until they have received everything counts.
    listeners: int = 0


class Listeners:
    """Clients that listen to a channel and count the bytes that they receive."""

    def __init__(self, server, count):
        self.selector = selectors.DefaultSelector()
        self.received = {}
        for _ in range(count):
            link = server.connect()
            link.sendall(encode("SUBSCRIBE", "channel"))
            # The confirmation is complete with its last line, the number of subscriptions.
            text = b""
            while not text.endswith(b":1\r\n"):
                text += link.recv(100)
            link.setblocking(False)
            self.selector.register(link, selectors.EVENT_READ)
            self.received[link] = 0

    def take(self, timeout):
        for key, _ in self.selector.select(timeout):
            got = key.fileobj.recv(1 << 18)
            if not got:
                sys.exit("a listener was disconnected")
            self.received[key.fileobj] += len(got)

    def wait_for(self, bytes_each):
        until = time.time() + 60
        while min(self.received.values()) < bytes_each:
            self.take(0.1)
            if time.time() > until:
                sys.exit(f"listeners got {min(self.received.values())} of {bytes_each} bytes")


def measure(line, row, depth, folder):
    """Microseconds of processor time per command of one server in one run."""
    server = Server(line, folder, processors="0")
    try:
        if row.before:
            server.send(row.before())
        listeners = Listeners(server, row.listeners) if row.listeners else None
        words = [DATA if w == "__data__" else w for w in shlex.split(row.command)]
        load = ["taskset", "-c", "1", BENCH, "-p", str(server.port), "-c", str(CONNECTIONS), "-n", str(row.count),
                "-r", str(row.keys), "-P", str(depth), "-q", *row.options, *words]
        start = server.seconds()
        with tempfile.TemporaryFile("w+") as out:
            run = subprocess.Popen(load, stdout=out, stderr=subprocess.STDOUT)
            while listeners and run.poll() is None:
                listeners.take(0.01)
            run.wait()
            out.seek(0)
            text = out.read()
        if run.returncode or "rror" in text:
            sys.exit(f"{row.command}: {text[-300:]}")
        if listeners:
            message = encode("message", "channel", DATA)
            # The generator sends whole pipelines on all connections: sometimes a few messages too many.
            listeners.wait_for(row.count * len(message))
        return (server.seconds() - start) / row.count * 1e6
    finally:
        server.stop()


def main(doc, rows, beside=None):
    """The command line: measures the rows for each server, or calls the function of an option in `beside`."""
    if "-h" in sys.argv or "--help" in sys.argv:
        print(doc)
        return
    os.sched_setaffinity(0, {1})
    parser = argparse.ArgumentParser(usage="see --help", add_help=False)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--only", default="")
    for name in beside or {}:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("servers", nargs="+")
    options = parser.parse_args()
    servers = [s.split("=", 1) for s in options.servers]
    for name, function in (beside or {}).items():
        if getattr(options, name):
            return function(servers, options.rounds)
    wanted = [name for name in options.only.split(",") if name]
    first = servers[0][0]
    print("| command | " + " | ".join([first] + [f"{name} | {first}/{name}" for name, _ in servers[1:]]) + " |")
    print("| --- |" + " ---: |" * (2 * len(servers) - 1))
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            if wanted and row.name not in wanted:
                continue
            runs = {name: [] for name, _ in servers}
            for _ in range(options.rounds):
                for name, line in servers:
                    runs[name].append(measure(line, row, options.depth, folder))
            cost = {name: statistics.median(values) for name, values in runs.items()}
            cells = [f"{cost[first]:.2f}"]
            for name, _ in servers[1:]:
                cells += [f"{cost[name]:.2f}", f"{cost[first] / cost[name]:.2f}"]
            print(f"| {row.name} | " + " | ".join(cells) + " |", flush=True)
