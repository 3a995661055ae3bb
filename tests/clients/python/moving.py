# SPDX-License-Identifier: BSD-3-Clause
"""redis-py's RedisCluster while the cluster changes. Usage: moving.py PORT moves|failover

Increments counters on many keys until standard input ends: every reply must be correct, and no error
may occur. With `failover`, primaries die: the library retries a request whose connection breaks, so an
increment may count twice, but a counter never goes back. The last line is "N checks passed". Run by
tests/clients/moving.rs.

Unless `Retry` is told to retry it, a refused connection uses up one of the library's attempts: several
hundred attempts then pass within a second, long before any cluster has a new primary.
"""

import sys
import threading
import time

from redis.backoff import ConstantBackoff
from redis.cluster import RedisCluster
from redis.exceptions import ConnectionError, ResponseError, TimeoutError
from redis.retry import Retry

KEYS = 200


def distinct(texts):
    """The texts without consecutive duplicates."""
    return [text for at, text in enumerate(texts) if at == 0 or texts[at - 1] != text]


def patient(is_exact, call):
    """Calls again as long as a primary answers that the outcome is unknown, as it may when primaries change."""
    while True:
        try:
            return call()
        except ResponseError as error:
            if is_exact or not str(error).startswith("UNCERTAIN "):
                raise
            time.sleep(0.05)


def main():
    port, is_exact = int(sys.argv[1]), sys.argv[2] == "moves"
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    counts, sent = [0] * KEYS, [0] * KEYS
    options = {}
    if not is_exact:
        retry = Retry(ConstantBackoff(0.1), 3, supported_errors=(ConnectionError, TimeoutError, OSError))
        options = {"retry": retry, "cluster_error_retry_attempts": 300}
    number = checks = 0
    with RedisCluster(host="127.0.0.1", port=port, **options) as client:
        while not ended.is_set():
            index = number % KEYS
            number += 1
            sent[index] += 1
            got = patient(is_exact, lambda: client.incr(f"python:{index}"))
            if got <= counts[index] or (is_exact and got != counts[index] + 1):
                raise AssertionError(f"python:{index}: {got} after {counts[index]}")
            counts[index] = got

            def append():
                with client.pipeline() as pipe:
                    pipe.rpush(f"python:list:{index}", sent[index])
                    pipe.hset(f"python:hash:{index}", "f", sent[index])
                    pipe.execute()

            patient(is_exact, append)
            checks += 1
        for index in range(KEYS):
            listed = patient(is_exact, lambda: client.lrange(f"python:list:{index}", 0, -1))
            if not is_exact:
                listed = distinct(listed)
            if listed != [b"%d" % n for n in range(1, sent[index] + 1)]:
                raise AssertionError(f"python:list:{index}: {listed}")
            checks += 1
    print(f"{checks} checks passed")


main()
