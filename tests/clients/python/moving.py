# SPDX-License-Identifier: BSD-3-Clause
"""redis-py's RedisCluster while slots move and a primary hands over. Usage: moving.py PORT SECONDS

Counts on many keys: every reply must be what it is to be, and no error may come. The last line is
"N checks passed". Run by tests/clients/main.rs.
"""

import sys
import time

from redis.cluster import RedisCluster

KEYS = 200


def main():
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    counts = [0] * KEYS
    checks = 0
    with RedisCluster(host="127.0.0.1", port=port) as client:
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end:
            index = number % KEYS
            number += 1
            counts[index] += 1
            got = client.incr(f"python:{index}")
            if got != counts[index]:
                raise AssertionError(f"python:{index}: {got}, not {counts[index]}")
            with client.pipeline() as pipe:
                pipe.rpush(f"python:list:{index}", counts[index])
                pipe.hset(f"python:hash:{index}", "f", counts[index])
                pipe.execute()
            checks += 1
        for index in range(KEYS):
            listed = client.lrange(f"python:list:{index}", 0, -1)
            if listed != [b"%d" % n for n in range(1, counts[index] + 1)]:
                raise AssertionError(f"python:list:{index}: {listed}")
            checks += 1
    print(f"{checks} checks passed")


main()
