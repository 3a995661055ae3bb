# SPDX-License-Identifier: BSD-3-Clause
"""redis-py's Sentinel class follows a failover of a group. Usage: sentinel.py GROUP PORT...

Increments a counter; prints "started" once that works, and "followed COUNT" after some failures and
many successes. Run by tests/group/discovery.rs, which kills the primary in between.
"""

import sys
import time

import redis
from redis.sentinel import Sentinel

group, ports = sys.argv[1], [int(port) for port in sys.argv[2:]]
sentinel = Sentinel([("127.0.0.1", port) for port in ports], socket_timeout=0.5)
primary = sentinel.master_for(group, socket_timeout=0.5)

failures = successes = 0
deadline = time.monotonic() + 60
while time.monotonic() < deadline:
    try:
        count = primary.incr("n")
    except redis.exceptions.RedisError:
        failures, successes = failures + 1, 0
        time.sleep(0.02)
        continue
    successes += 1
    if failures == 0 and successes == 5:
        assert len(sentinel.discover_slaves(group)) == len(ports) - 1
        print("started", flush=True)
    if failures > 0 and successes == 20:
        print(f"followed {count}")
        sys.exit(0)
sys.exit(f"no success: {failures} failures")
