# SPDX-License-Identifier: BSD-3-Clause
"""redis-py's RedisCluster against one server in cluster mode. Usage: cluster.py PORT

Every check raises on failure; the last line is "N checks passed". Run by tests/clients/main.rs.
"""

import sys
import time

from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException, RedisError

CHECKS = 0


def check(got, expected, what):
    global CHECKS
    if got != expected:
        raise AssertionError(f"{what}: got {got!r}, expected {expected!r}")
    CHECKS += 1


def heard(pubsub):
    """The next message. get_sharded_message waits for none of several nodes, so it is called repeatedly."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        message = pubsub.get_sharded_message(timeout=1)
        if message is not None:
            return message
    raise AssertionError("no message")


def work(port, protocol):
    with RedisCluster(host="127.0.0.1", port=port, protocol=protocol) as client:
        client.flushall()
        check(len(client.get_nodes()), 1, "nodes")
        check(len(client.nodes_manager.slots_cache), 16384, "slots")
        for number in range(100):
            client.set(f"key:{number}", number)
        check([client.get(f"key:{n}") for n in range(100)], [b"%d" % n for n in range(100)], "GET")
        check(client.mget_nonatomic("key:1", "key:2"), [b"1", b"2"], "MGET over slots")
        check(client.mget("{t}a", "{t}b"), [None, None], "MGET in a slot")
        try:
            client.mget("a", "b")
        except RedisClusterException:
            check(True, True, "MGET over slots is refused")
        node = client.get_default_node()
        try:
            client.execute_command("MGET", "a", "b", target_nodes=node)
            raise AssertionError("the server must refuse keys of several slots")
        except RedisError as error:
            check("hash to the same slot" in str(error), True, f"{error}")
        with client.pipeline() as pipe:
            for number in range(100):
                pipe.incr(f"count:{number % 10}")
            check(sum(pipe.execute()), 550, "a pipeline over slots")
        check(client.cluster_countkeysinslot(client.keyslot("key:5")) >= 1, True, "COUNTKEYSINSLOT")
        names = client.cluster_get_keys_in_slot(client.keyslot("key:5"), 9)
        # Text in RESP2, bytes in RESP3.
        check("key:5" in names or b"key:5" in names, True, "GETKEYSINSLOT")
        check(client.cluster_info(target_nodes=node)["cluster_state"], "ok", "CLUSTER INFO")
        (only,) = client.cluster_nodes().values()
        check((only["slots"], only["flags"]), ([["0", "16383"]], "myself,master"), "CLUSTER NODES")
        check(len(client.cluster_shards(target_nodes=node)), 1, "CLUSTER SHARDS")
        check(client.eval("return redis.call('get', KEYS[1])", 1, "key:7"), b"7", "EVAL")
        check(sorted(client.scan_iter(match="count:*")), [b"count:%d" % n for n in range(10)], "SCAN")
        check(client.dbsize(), 110, "DBSIZE")
        pubsub = client.pubsub()
        pubsub.ssubscribe("news")
        check(heard(pubsub)["type"], "ssubscribe", "SSUBSCRIBE")
        check(client.spublish("news", "hello"), 1, "SPUBLISH")
        check(heard(pubsub)["data"], b"hello", "the message")
        pubsub.close()


def main():
    port = int(sys.argv[1])
    for protocol in (2, 3):
        work(port, protocol)
    print(f"{CHECKS} checks passed")


main()
