// SPDX-License-Identifier: BSD-3-Clause
// Jedis's Sentinel pool follows a failover of a group. Usage: FollowFailover GROUP PORT...
//
// Increments a counter; prints "started" once that works, and "followed COUNT" after some failures and many
// successes. Run by tests/group/discovery.rs, which kills the primary in between.

import java.util.Arrays;
import java.util.Set;
import java.util.stream.Collectors;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPoolConfig;
import redis.clients.jedis.JedisSentinelPool;
import redis.clients.jedis.exceptions.JedisException;

public class FollowFailover {
    public static void main(String[] arguments) throws Exception {
        Set<String> sentinels =
            Arrays.stream(arguments).skip(1).map(port -> "127.0.0.1:" + port).collect(Collectors.toSet());
        int failures = 0;
        int successes = 0;
        long deadline = System.nanoTime() + 60_000_000_000L;
        try (JedisSentinelPool pool = new JedisSentinelPool(arguments[0], sentinels, new JedisPoolConfig(), 500)) {
            while (System.nanoTime() < deadline) {
                long count;
                try (Jedis client = pool.getResource()) {
                    count = client.incr("n");
                } catch (JedisException error) {
                    failures++;
                    successes = 0;
                    Thread.sleep(20);
                    continue;
                }
                successes++;
                if (failures == 0 && successes == 5) {
                    System.out.println("started");
                }
                if (failures > 0 && successes == 20) {
                    System.out.println("followed " + count);
                    System.out.flush();
                    Runtime.getRuntime().halt(0);
                }
            }
        }
        System.err.println("no success: " + failures + " failures");
        Runtime.getRuntime().halt(1);
    }
}
