# SPDX-License-Identifier: BSD-3-Clause
"""Commands that came after Redis 8.6, through redis-py's own methods, in both protocols."""

import threading

import redis
from redis.commands.core import ArrayAggregateOperations as Aggregate
from redis.commands.core import ArrayPredicateCombinator as Combine
from redis.commands.core import ArrayPredicateType as Is

from checks import PORT, done, same


def arrays(client):
    same(client.arset("a", 0, "zero", "one"), 2)
    same(client.armset("a", {5: "five", 9: "nine"}), 2)
    same((client.arget("a", 1), client.arget("a", 2)), ("one", None))
    same(client.armget("a", 5, 6), ["five", None])
    same(client.argetrange("a", 1, 0), ["one", "zero"])
    same(client.arscan("a", 0, 9, limit=3), [[0, "zero"], [1, "one"], [5, "five"]])
    same((client.arlen("a"), client.arcount("a")), (10, 4))
    same(client.argrep("a", 0, 9, [(Is.MATCH, "N"), (Is.GLOB, "f*")], nocase=True), [1, 5, 9])
    same(client.argrep("a", 9, 0, [(Is.RE, "^n"), (Is.EXACT, "nine")], Combine.AND, withvalues=True), [[9, "nine"]])
    same(client.ardel("a", 5, 6), 1)
    same(client.ardelrange("a", (0, 1), (9, 20)), 3)
    same(client.exists("a"), 0)
    same((client.arinsert("log", "x", "y"), client.arnext("log"), client.arseek("log", 7)), (1, 2, 1))
    same(client.arinfo("log")["next-insert-index"], 7)
    same((client.arring("ring", 2, "10", "20", "30"), client.arlastitems("ring", 2, rev=True)), (0, ["30", "20"]))
    same(client.arop("ring", 0, 1, Aggregate.SUM), "50")
    same(client.arop("ring", 0, 1, Aggregate.MATCH, "20"), 1)


def series(client):
    series = client.ts()
    series.create("s")
    series.madd([("s", 100, 1), ("s", 200, 2.5)])
    same([list(sample) for sample in series.read("s", 150)], [[200, 2.5]])
    threading.Timer(0.05, lambda: series.add("s", 300, 3)).start()
    same([list(sample) for sample in series.read("s", "$", block_milliseconds=20_000)], [[300, 3.0]])


def others(client):
    same([float(number) for number in client.increx("n", byint=5, ubound=8, ex=60)], [5.0, 5.0])
    client.sadd("s:1", "a", "b")
    client.sadd("s:2", "b", "c")
    same((client.sunioncard(2, ["s:1", "s:2"]), client.sdiffcard(2, ["s:1", "s:2"])), (3, 1))
    client.rpush("l:1", *"abcd")
    same(client.lmovem("l:1", "l:2", count=2, mode="COUNT", ordering="BULK"), ["a", "b"])


for protocol in (2, 3):
    connection = redis.Redis(port=PORT, protocol=protocol, decode_responses=True)
    for part in (arrays, series, others):
        connection.flushall()
        part(connection)
done()
