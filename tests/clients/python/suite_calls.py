# SPDX-License-Identifier: BSD-3-Clause
"""Calls of redis-py's own test suite, and of other clients' suites, that servers have answered wrongly.
Usage: suite_calls.py PORT

The server reports redis_version 8.0.6. Every check raises on failure; the last line is
"N checks passed". Run by tests/clients/main.rs.
"""

import sys
import threading
import time

import redis

CHECKS = 0


def check(got, expected, what):
    global CHECKS
    if got != expected:
        raise AssertionError(f"{what}: got {got!r}, expected {expected!r}")
    CHECKS += 1


def ok(client, *words):
    check(client.execute_command(*words) in (True, b"OK"), True, words)


def refused(call, *words, text):
    try:
        call(*words)
    except redis.RedisError as error:
        check(text in str(error), True, f"{words}: {error}")
        return
    raise AssertionError(f"{words} must be refused with {text}")


def kills(connect):
    """Every connection sees an endless script or function and can kill it, once."""
    client = connect()
    client.function_load(
        "#!lua name=loops\nredis.register_function{function_name='loop', "
        "callback=function() while true do end end, flags={'no-writes'}}",
        replace=True,
    )
    runs = [
        (("EVAL", "while true do end", 0), "SCRIPT KILL"),
        (("EVAL_RO", "while true do redis.call('get', KEYS[1]) end", 1, "k"), "SCRIPT KILL"),
        (("FCALL", "loop", 0), "FUNCTION KILL"),
        (("FCALL_RO", "loop", 1, "k"), "FUNCTION KILL"),
    ]
    for words, kill in runs:
        for asking in [connect() for _ in range(6)]:
            ended = []

            def run():
                try:
                    connect().execute_command(*words)
                except redis.RedisError as error:
                    ended.append(str(error))

            thread = threading.Thread(target=run)
            thread.start()
            # Long before busy-reply-threshold (5 s).
            until = time.monotonic() + 4
            while True:
                try:
                    if kill.startswith("FUNCTION"):
                        stats = asking.execute_command("FUNCTION STATS")
                        if not (stats[b"running_script"] if isinstance(stats, dict) else stats[1]):
                            continue
                    check(asking.execute_command(kill) in (True, b"OK"), True, kill)
                    break
                except redis.exceptions.ResponseError as error:
                    if "NOTBUSY" not in str(error) or time.monotonic() > until:
                        raise
            thread.join(10)
            check(len(ended) == 1 and "kill" in ended[0].lower(), True, f"{words} ends: {ended}")
    refused(client.execute_command, "SCRIPT KILL", text="NOTBUSY")
    refused(client.execute_command, "FUNCTION KILL", text="NOTBUSY")


def rights(client):
    """ACL rules name commands that a server without cluster mode has, too."""
    for rule in ["+cluster", "-slaveof", "-replicaof", "-migrate", "+cluster|slots", "+cluster|myid", "+readonly", "+@all"]:
        ok(client, "ACL SETUSER", "suite", "on", "nopass", "~*", rule)
    check(client.acl_deluser("suite"), 1, "ACL DELUSER")
    refused(client.execute_command, "ACL SETUSER", "suite", "+nosuch", text="Unknown command or category name in ACL")


def cluster(client):
    disabled = "This instance has cluster support disabled"
    for words in [("CLUSTER", "INFO"), ("CLUSTER", "NODES"), ("CLUSTER", "SLOTS"), ("CLUSTER", "KEYSLOT", "k"), ("READONLY",),
                  ("READWRITE",), ("ASKING",)]:
        refused(client.execute_command, *words, text=disabled)
    ok(client, "REPLICAOF", "NO", "ONE")
    ok(client, "SLAVEOF", "NO", "ONE")
    refused(client.execute_command, "FAILOVER", "ABORT", text="No failover in progress.")


def versions(client):
    info = client.info("server")
    check(info["redis_version"], "8.0.6", "redis_version")
    check("braid_version" in info, True, "braid_version in INFO")
    hello = client.execute_command("HELLO")
    if isinstance(hello, list):
        hello = dict(zip(hello[::2], hello[1::2]))
    check(hello[b"version"], b"8.0.6", "HELLO")
    check(b"8.0.6" in client.execute_command("LOLWUT"), True, "LOLWUT")


def scripts(client):
    check(client.eval("return server.call('SET', KEYS[1], ARGV[1])", 1, "own", "v"), b"OK", "server.call")
    check(client.eval("return server.pcall('INCR', KEYS[1]).err ~= nil", 1, "own"), 1, "server.pcall")
    check(client.eval("return server.sha1hex('')", 0), b"da39a3ee5e6b4b0d3255bfef95601890afd80709", "server.sha1hex")
    check(client.eval("return server == redis or server.LOG_WARNING == redis.LOG_WARNING", 0), 1, "log levels")
    refused(client.eval, "server.call = 1", 0, text="readonly")
    refused(client.eval, "return server.error_reply('MY own')", 0, text="MY own")
    library = "#!lua name=twin\nserver.register_function('twin', function(keys) return server.call('GET', keys[1]) end)"
    check(client.function_load(library, replace=True), b"twin", "server.register_function")
    check(client.fcall("twin", 1, "own"), b"v", "the registered function")
    sha = client.script_load("return 7")
    check(client.execute_command("SCRIPT SHOW", sha), b"return 7", "SCRIPT SHOW")
    refused(client.execute_command, "SCRIPT SHOW", "0" * 40, text="No matching script")


def small_ones(client):
    # As in Redis 7.2 and 8.0; Valkey 9 returns an error.
    cursor, found = client.execute_command("SCAN", 0, "TYPE", "nosuch", "COUNT", 10_000)
    check((int(cursor), found), (0, []), "SCAN with an unknown type")
    client.set("bits", "foobar")
    check(client.execute_command("BITCOUNT", "bits", 1), 22, "BITCOUNT from a start to the end")
    for part in ["redirect", "handle-error"]:
        ok(client, "CLIENT CAPA", part)
    check(all("capa" in line for line in client.client_list()), True, "capa= in CLIENT LIST")
    ok(client, "CLIENT IMPORT-SOURCE", "OFF")


def streams(client):
    client.delete("st")
    ids = [client.xadd("st", {"n": number}) for number in range(3)]
    entries = client.xread({"st": "+"})
    entry = entries[0][1][0] if isinstance(entries, list) else entries[b"st"][0][0]
    check(entry[0], ids[-1], "the last entry")
    client.xgroup_create("st", "g", id="0", entries_read=9)
    check(client.xinfo_groups("st")[0]["lag"], 3, "lag with ENTRIESREAD ahead")


def fields(client):
    info = client.info("everything")
    for field in [
        "allocator_muzzy", "client_output_buffer_limit_disconnections", "client_query_buffer_limit_disconnections",
        "evicted_scripts", "total_watched_keys", "watching_clients", "mem_overhead_db_hashtable_rehashing",
        "mem_replica_full_sync_buffer",
    ]:
        check(isinstance(info.get(field), int), True, f"{field} in INFO: {info.get(field)}")
    watching = client.pipeline()
    watching.watch("w1", "w2")
    counted = client.info("clients")
    check((counted["total_watched_keys"], counted["watching_clients"]), (2, 1), "watched keys")
    watching.reset()


def main():
    port = int(sys.argv[1])
    for protocol in (2, 3):

        def connect():
            return redis.Redis(port=port, protocol=protocol, socket_timeout=20)

        client = connect()
        client.flushall()
        kills(connect)
        for part in (rights, cluster, versions, scripts, small_ones, streams, fields):
            part(client)
        client.close()
    print(f"{CHECKS} checks passed")


main()
