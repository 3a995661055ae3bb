# SPDX-License-Identifier: BSD-3-Clause
"""Typical work through redis-py, in RESP2 and RESP3. Usage: test_client.py PORT

Every check raises on failure; the last line is "N checks passed". Run by tests/clients/main.rs.
"""

import sys
import threading

import redis

CHECKS = 0


def check(got, expected, what):
    global CHECKS
    if got != expected:
        raise AssertionError(f"{what}: got {got!r}, expected {expected!r}")
    CHECKS += 1


def strings(client):
    check(client.set("s", "value", ex=100), True, "SET EX")
    check(client.get("s"), b"value", "GET")
    check(99 <= client.ttl("s") <= 100, True, "TTL")
    check(client.set("s", "other", nx=True), None, "SET NX on an existing key")
    check(client.set("s", "new", get=True), b"value", "SET GET")
    check(client.mset({"a": "1", "b": "2"}), True, "MSET")
    check(client.mget("a", "nosuch", "b"), [b"1", None, b"2"], "MGET")
    check(client.incrby("a", 41), 42, "INCRBY")
    check(float(client.incrbyfloat("f", "0.1")), 0.1, "INCRBYFLOAT")
    check(client.append("s", "er"), 5, "APPEND")
    check(client.getrange("s", 1, 3), b"ewe", "GETRANGE")
    binary = bytes(range(256)) * 100
    client.set(b"bin\x00\xff", binary)
    check(client.get(b"bin\x00\xff"), binary, "binary keys and values")
    client.setbit("bits", 7, 1)
    check(client.bitcount("bits"), 1, "BITCOUNT")
    check(client.bitfield("bf").set("u8", 0, 200).incrby("u8", 0, 10).execute(), [0, 210], "BITFIELD")
    check(client.delete("s", "nosuch"), 1, "DEL")
    check(client.exists("s"), 0, "EXISTS")
    try:
        client.set("text", "abc")
        client.incr("text")
        raise AssertionError("INCR of text must fail")
    except redis.ResponseError as error:
        check("not an integer" in str(error), True, "error text")


def keys(client):
    client.set("from", "v")
    check(client.rename("from", "to"), True, "RENAME")
    check(client.copy("to", "copied"), True, "COPY")
    check(client.type("copied"), b"string", "TYPE")
    check(client.object("encoding", "copied"), b"embstr", "OBJECT ENCODING")
    client.mset({f"scan:{number}": number for number in range(1000)})
    check(len(set(client.scan_iter(match="scan:*", count=50))), 1000, "SCAN")
    check(client.unlink(*[f"scan:{number}" for number in range(1000)]), 1000, "UNLINK")


def pipelines(client):
    with client.pipeline(transaction=False) as pipe:
        for number in range(500):
            pipe.set(f"p:{number}", number).get(f"p:{number}")
        replies = pipe.execute()
    check(replies[1::2], [str(number).encode() for number in range(500)], "pipeline")
    with client.pipeline(transaction=True) as pipe:
        pipe.set("t", 1).incr("t").get("t")
        check(pipe.execute(), [True, 2, b"2"], "MULTI/EXEC")


def transactions(client):
    client.set("counter", 0)

    def work():
        own = redis.Redis(connection_pool=client.connection_pool)

        def add(pipe):
            value = int(pipe.get("counter"))
            pipe.multi()
            pipe.set("counter", value + 1)

        for _ in range(50):
            own.transaction(add, "counter")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(client.get("counter"), b"200", "WATCH under contention")


def locks(client):
    """Locks are acquired by SET NX and released by a script that checks their owner."""
    first, second = client.lock("lock", timeout=10), client.lock("lock", timeout=10, blocking_timeout=0.05)
    check(first.acquire(), True, "a free lock")
    check(second.acquire(), False, "a taken lock")
    check((first.owned(), second.owned()), (True, False), "the owner")
    check(first.extend(20), True, "extending the lock")
    check(10 < client.ttl("lock") <= 30, True, "time to live of the extended lock")
    check(first.reacquire(), True, "reacquiring the lock")
    first.release()
    check(client.exists("lock"), 0, "a released lock")
    short = client.lock("lock", timeout=0.05)
    short.acquire()
    check(client.lock("lock", timeout=10, sleep=0.005).acquire(), True, "an expired lock")
    try:
        short.release()
        raise AssertionError("releasing a lost lock must fail")
    except redis.exceptions.LockNotOwnedError:
        check(client.exists("lock"), 1, "the new owner keeps the lock")
    client.delete("lock")
    client.set("locked", 0)

    def work():
        own = redis.Redis(connection_pool=client.connection_pool)
        for _ in range(25):
            with own.lock("lock", timeout=20, sleep=0.001):
                own.set("locked", int(own.get("locked")) + 1)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check(client.get("locked"), b"150", "one lock holder at a time")


def series(client):
    """redis-py's own methods for time series; stock servers lack the commands."""
    if "braid_version" not in client.info("server"):
        return
    series = client.ts()
    check(series.create("ts:a", retention_msecs=100000, labels={"l": "x"}), True, "TS.CREATE")
    check(series.create("ts:sum"), True, "TS.CREATE of a target")
    check(series.createrule("ts:a", "ts:sum", "sum", 10), True, "TS.CREATERULE")
    check(series.add("ts:a", 1, 0.5), 1, "TS.ADD")
    check(series.madd([("ts:a", 5, 2), ("ts:a", 11, 4)]), [5, 11], "TS.MADD")
    check(series.incrby("ts:a", 1, timestamp=12), 12, "TS.INCRBY")
    check([tuple(pair) for pair in series.range("ts:a", "-", "+")], [(1, 0.5), (5, 2), (11, 4), (12, 5)], "TS.RANGE")
    check(tuple(series.get("ts:sum")), (0, 2.5), "TS.GET of a rule's target")
    check(tuple(series.get("ts:sum", latest=True)), (10, 9), "TS.GET with LATEST")
    found = series.range("ts:a", "-", "+", aggregation_type="max", bucket_size_msec=10)
    check([tuple(pair) for pair in found], [(0, 2), (10, 5)], "TS.RANGE of buckets")
    keys = [key.decode() if isinstance(key, bytes) else key for key in series.queryindex(["l=x"])]
    check(keys, ["ts:a"], "TS.QUERYINDEX")
    check(len(series.mget(["l=x"])), 1, "TS.MGET")
    check(len(series.mrange("-", "+", ["l=x"], with_labels=True)), 1, "TS.MRANGE")
    info = series.info("ts:a")
    # A dictionary in RESP3.
    total = info.get("totalSamples", info.get(b"totalSamples")) if isinstance(info, dict) else info.total_samples
    check(total, 4, "TS.INFO")
    check(series.delete("ts:a", 0, 4), 1, "TS.DEL")
    check(series.deleterule("ts:a", "ts:sum"), True, "TS.DELETERULE")
    client.delete("ts:a", "ts:sum")


def documents(client):
    """redis-py's own methods for JSON; stock servers lack the commands."""
    if "braid_version" not in client.info("server"):
        return
    document = client.json()
    check(document.set("doc", "$", {"a": 1, "l": [1, "x", 2.5], "s": "text", "b": True}), True, "JSON.SET")
    check(document.get("doc"), {"a": 1, "l": [1, "x", 2.5], "s": "text", "b": True}, "JSON.GET")
    check(document.get("doc", "$.l[2]"), [2.5], "JSON.GET of a path")
    check(document.get("doc", ".s"), "text", "JSON.GET of an older path")
    check(document.get("doc", "$.a", "$.s"), {"$.a": [1], "$.s": ["text"]}, "JSON.GET of several paths")
    check(document.numincrby("doc", "$.a", 2), [3], "JSON.NUMINCRBY")
    check(document.arrappend("doc", "$.l", "y", None), [5], "JSON.ARRAPPEND")
    check(document.arrindex("doc", "$.l", "y"), [3], "JSON.ARRINDEX")
    check(document.arrpop("doc", "$.l"), [None], "JSON.ARRPOP")
    check(document.strappend("doc", " more", "$.s"), [9], "JSON.STRAPPEND")
    check(document.toggle("doc", "$.b"), [False], "JSON.TOGGLE")
    check(document.objlen("doc"), 4, "JSON.OBJLEN")
    check(len(document.objkeys("doc")), 4, "JSON.OBJKEYS")
    check(document.merge("doc", "$", {"s": None, "n": {"m": 1}}), True, "JSON.MERGE")
    check(document.mset([("doc2", "$", 1), ("doc3", "$", [1])]), True, "JSON.MSET")
    check(document.mget(["doc2", "nosuch", "doc3"], "$"), [[1], None, [[1]]], "JSON.MGET")
    check(document.delete("doc", "$.n"), 1, "JSON.DEL")
    check(client.type("doc"), b"ReJSON-RL", "TYPE")


def server(client):
    check(client.ping(), True, "PING")
    check(client.echo("hello"), b"hello", "ECHO")
    client.client_setname("py")
    check("redis_version" in client.info("server"), True, "INFO")
    check(len(client.client_list()) >= 1, True, "CLIENT LIST")
    check(client.config_get("timeout"), {"timeout": "0"}, "CONFIG GET")
    check(client.config_set("timeout", 0), True, "CONFIG SET")
    check(client.time()[0] > 1_600_000_000, True, "TIME")
    check(isinstance(client.command_count(), int), True, "COMMAND COUNT")
    check("get" in client.command(), True, "COMMAND")


def main():
    port = int(sys.argv[1])
    for protocol in (2, 3):
        client = redis.Redis(port=port, protocol=protocol, socket_timeout=20)
        client.flushall()
        for part in (strings, keys, pipelines, transactions, locks, documents, series, server):
            part(client)
        client.close()
    decoded = redis.Redis(port=port, decode_responses=True, db=2)
    decoded.set("k", "grün")
    check(decoded.get("k"), "grün", "decode_responses")
    check(decoded.dbsize(), 1, "DBSIZE of database 2")
    print(f"{CHECKS} checks passed")


main()
