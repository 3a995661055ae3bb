#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Memory of the index, and processor time per document and query, of RediSearch and of the crate.

    cost.py SERVER PROGRAM [DOCUMENTS]

SERVER starts a server with RediSearch (arguments are appended); PROGRAM is `search_lines`. Short
texts of a vocabulary with Zipf's distribution, three tags, two numbers. Theirs: processor time of
the server process while documents are set, less that of setting them without an index; memory that
FT.INFO counts, and what the process grows by. Ours: the thread's processor time within the crate,
and the sizes that the index reports.
"""

import json
import os
import random
import subprocess
import sys
import time

import redis

import texts

PORT = 7933


def ticks(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def make(count):
    rng = random.Random(1)
    words = texts.words(rng, count * 10)
    for number in range(count):
        yield f"doc:{number}", {
            "t": " ".join(next(words) for _ in range(10)),
            "g": f"tag{rng.randrange(100)}", "k": f"kind{rng.randrange(5)}", "id": f"id{number}",
            "n": str(rng.randrange(1000000)), "m": str(round(rng.random(), 3)),
        }


def queries(count):
    sample = [values["t"].split() for _, values in make(2000)]
    return texts.queries(random.Random(2), count, sample)


def fill(client, documents):
    pipeline = client.pipeline(transaction=False)
    for number, (key, values) in enumerate(documents):
        pipeline.hset(key, mapping=values)
        if number % 1000 == 999:
            pipeline.execute()
    pipeline.execute()


def theirs(program, count, asked):
    server = subprocess.Popen([*program.split(), "--port", str(PORT), "--save", "", "--appendonly", "no"], stdout=subprocess.DEVNULL)
    client = redis.Redis(port=PORT)
    for _ in range(100):
        try:
            client.ping()
            break
        except redis.ConnectionError:
            time.sleep(0.1)
    pid = server.pid
    result = {}
    try:
        started = ticks(pid)
        fill(client, make(count))
        plain, plain_rss = ticks(pid) - started, rss(pid)
        client.flushall()
        client.execute_command("FT.CREATE", "i", "SCHEMA", "t", "TEXT", "g", "TAG", "k", "TAG", "id", "TAG", "n", "NUMERIC", "m", "NUMERIC", "SORTABLE")
        started = ticks(pid)
        fill(client, make(count))
        result["put"] = (ticks(pid) - started - plain) / count
        info = client.execute_command("FT.INFO", "i")
        if isinstance(info, list):
            info = dict(zip(info[::2], info[1::2]))
        text = {(key.decode() if isinstance(key, bytes) else key): value for key, value in info.items()}
        result["memory (FT.INFO)"] = float(text["total_index_memory_sz_mb"]) * (1 << 20)
        result["memory (process)"] = rss(pid) - plain_rss
        for name, texts in asked.items():
            started = ticks(pid)
            for text in texts:
                client.execute_command("FT.SEARCH", "i", text, "NOCONTENT", "DIALECT", "2", "SCORER", "BM25STD")
            result[name] = (ticks(pid) - started) / len(texts)
        started = ticks(pid)
        for _ in range(2000):
            client.ping()
        result["ping"] = (ticks(pid) - started) / 2000
    finally:
        server.terminate()
        server.wait()
    return result


def ours(program, count, asked):
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(**request):
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    text, tag, numeric = "text", "tag", "numeric"
    fields = [{"name": "t", "type": text}] + [{"name": name, "type": tag} for name in ("g", "k", "id")]
    fields += [{"name": "n", "type": numeric}, {"name": "m", "type": numeric, "sortable": True}]
    ask(op="create", fields=fields, parts=16)
    before = rss(process.pid)
    # As many at once as the other gets.
    waiting = 0
    for key, values in make(count):
        process.stdin.write(json.dumps({"op": "put", "key": key, "values": values, "forget": True}) + "\n")
        waiting += 1
        if waiting == 500:
            process.stdin.flush()
            for _ in range(waiting):
                process.stdout.readline()
            waiting = 0
    process.stdin.flush()
    for _ in range(waiting):
        process.stdout.readline()
    size = ask(op="size")
    print(size)
    result = {"put": size["puts"] / count, "memory (FT.INFO)": size["total"], "memory (process)": rss(process.pid) - before}
    for name, texts in asked.items():
        started = ask(op="size")["queries"]
        for query in texts:
            answer = ask(op="search", query=query, scorer="BM25STD")
            assert "error" not in answer, answer
        result[name] = (ask(op="size")["queries"] - started) / len(texts)
    process.stdin.close()
    process.wait()
    return result


def main():
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 100000
    asked = queries(300)
    one, other = theirs(sys.argv[1], count, asked), ours(sys.argv[2], count, asked)
    print(f"{count} documents; processor time in microseconds, memory in bytes a document; a PING takes {one['ping'] * 1e6:.0f}")
    for name in other:
        memory = name.startswith("memory")
        scale = 1 / count if memory else 1e6
        print(f"{name:18} theirs {one[name] * scale:9.1f} ours {other[name] * scale:9.1f} ratio {other[name] / max(one[name], 1e-12):.2f}")


if __name__ == "__main__":
    main()
