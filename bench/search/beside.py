#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Servers with search beside each other: what an index costs writers, processor time of queries, memory, threads.

    bench/search/beside.py [--documents N] [--words N] [--queries N] [--rounds N] [--waits] NAME='SERVER COMMAND LINE' NAME=...

Command lines as in bench/types. Figures are processor time of the server process (median of rounds, in microseconds):
they hold on a busy machine. `two threads` is for servers whose line has {threads}: how many times as many queries two
threads answer as one, by processor time for each query. GET beside queries is the slowest of a thousand GET, with and
without another client that sends heavy queries; it needs an idle machine.
"""
import argparse
import os
import random
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from servers import Client, Server, encode

import texts

SCHEMA = "FT.CREATE i PREFIX 1 doc: SCHEMA t TEXT g TAG n NUMERIC m NUMERIC SORTABLE".split()


def documents(count, length):
    rng = random.Random(1)
    drawn = texts.words(rng, count * length)
    for number in range(count):
        yield (f"doc:{number}", " ".join(next(drawn) for _ in range(length)), f"tag{rng.randrange(100)}",
               str(rng.randrange(1000000)), str(round(rng.random(), 3)))


def requests(all_documents, prefix=""):
    return [encode("HSET", prefix + key, "t", t, "g", g, "n", n, "m", m) for key, t, g, n, m in all_documents]


def send(server, all_requests, depth):
    """Processor time of a request, with 16 connections and `depth` requests of each at once."""
    clients = [Client(server.port) for _ in range(16)]
    step, began = len(clients) * depth, server.seconds()
    for at in range(0, len(all_requests), step):
        parts = [(client, all_requests[at + number * depth:at + (number + 1) * depth]) for number, client in enumerate(clients)]
        for client, part in parts:
            client.socket.sendall(b"".join(part))
        for client, part in parts:
            for _ in part:
                client.read()
    took = server.seconds() - began
    for client in clients:
        client.close()
    return took / len(all_requests)


def ask(server, text):
    return encode("FT.SEARCH", "i", text, "NOCONTENT", "DIALECT", "2", "SCORER", "BM25STD")


def drawn_queries(all_documents, count):
    sample = [document[1].split() for document in all_documents[:2000]]
    return texts.queries(random.Random(2), count, sample, without=["unique tag"])


def line_of(line, threads):
    return line.replace("{threads}", str(threads))


def measure(line, folder, docs, queries, figures):
    def note(name, value):
        figures.setdefault(name, []).append(value)

    for depth in (1, 16):
        server = Server(line_of(line, 1), folder)
        part = docs[:40000] if depth == 1 else docs
        empty = server.resident()
        plain = send(server, requests(part), depth)
        plain_memory = server.resident() - empty
        server.stop()
        server = Server(line_of(line, 1), folder)
        empty = server.resident()
        server.client.insist(*SCHEMA)
        indexed = send(server, requests(part), depth)
        note(f"HSET, {depth} at once", plain * 1e6)
        note(f"HSET indexed, {depth} at once", indexed * 1e6)
        if depth == 16:
            note("index of a document", (indexed - plain) * 1e6)
            note("index memory, bytes a document", (server.resident() - empty - plain_memory) / len(part))
        else:
            server.stop()
    for name, texts in queries.items():
        note(name, send(server, [ask(server, text) for text in texts], 1) * 1e6)
    server.stop()
    if "{threads}" in line:
        costs = []
        mixed = [ask(None, text) for texts in queries.values() for text in texts] * 2
        for threads in (1, 2):
            server = Server(line_of(line, threads), folder)
            server.client.insist(*SCHEMA)
            send(server, requests(docs), 16)
            costs.append(send(server, mixed, 4))
            server.stop()
        note("two threads, times one", 2 * costs[0] / costs[1])


def waits(line, folder, docs, figures):
    server = Server(line_of(line, 2), folder)
    server.client.insist(*SCHEMA)
    send(server, requests(docs), 16)
    server.client.insist("SET", "k", "v")
    getter, done = Client(server.port), threading.Event()

    def one_round():
        took = []
        for _ in range(5000):
            began = time.perf_counter()
            getter.call("GET", "k")
            took.append(time.perf_counter() - began)
        return sorted(took)[int(len(took) * .999)] * 1e6

    def heavy():
        client = Client(server.port)
        while not done.is_set():
            client.call("FT.SEARCH", "i", "*", "SORTBY", "m", "LIMIT", "0", "10")

    for _ in range(3):
        figures.setdefault("GET p99.9 alone", []).append(one_round())
        done.clear()
        load = threading.Thread(target=heavy)
        load.start()
        figures.setdefault("GET p99.9 beside queries", []).append(one_round())
        done.set()
        load.join()
    server.stop()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--words", type=int, default=10, help="of a document's text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--waits", action="store_true", help="GET beside queries only")
    parser.add_argument("servers", nargs="+")
    options = parser.parse_args()
    docs = list(documents(options.documents, options.words))
    queries = drawn_queries(docs, options.queries)
    found = {server.split("=", 1)[0]: {} for server in options.servers}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for server in options.servers:
                name, line = server.split("=", 1)
                if options.waits:
                    waits(line, folder, docs, found[name])
                else:
                    measure(line, folder, docs, queries, found[name])
    first = found[next(iter(found))]
    for figure in first:
        values = [(name, statistics.median(figures[figure])) for name, figures in found.items() if figure in figures]
        ratio = f"ratio {values[0][1] / values[1][1]:.2f}" if len(values) > 1 and values[1][1] else ""
        print(f"{figure:32}", *(f"{name} {value:10.2f}" for name, value in values), ratio)
    for name, figures in found.items():
        for depth in (1, 16):
            if f"HSET, {depth} at once" in figures:
                ratio = statistics.median(figures[f"HSET indexed, {depth} at once"]) / statistics.median(figures[f"HSET, {depth} at once"])
                print(f"{name}: HSET with the index, {depth} at once: {ratio:.2f} x")


if __name__ == "__main__":
    main()
