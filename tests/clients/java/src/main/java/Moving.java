// SPDX-License-Identifier: BSD-3-Clause
// Jedis's JedisCluster while the cluster changes. Usage: Moving PORT moves|failover
//
// Increments counters on many keys until standard input ends: every reply must be correct, and no error may
// occur. With `failover`, primaries die: the library retries a request whose connection breaks, so an increment
// may count twice, but a counter never goes back. The last line is "N checks passed". Run by tests/clients/moving.rs.

import java.io.IOException;
import java.io.OutputStream;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.LongSupplier;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;
import redis.clients.jedis.Connection;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.exceptions.JedisDataException;

public class Moving {
    private static final int KEYS = 200;

    private static JedisCluster connect(int port, boolean isExact) {
        HostAndPort node = new HostAndPort("127.0.0.1", port);
        GenericObjectPoolConfig<Connection> pool = new GenericObjectPoolConfig<>();
        // With `moves`, long timeouts: a stalled machine must not cause retries. With `failover`, the attempts
        // are spread randomly over up to two minutes; fewer would sometimes span less than a failover takes.
        return isExact ? new JedisCluster(node, 60_000, 60_000, 5, pool) : new JedisCluster(node, 2000, 2000, 60, pool);
    }

    /** Calls again as long as a primary answers that the outcome is unknown, as it may when primaries change. */
    private static long patient(boolean isExact, LongSupplier call) {
        while (true) {
            try {
                return call.getAsLong();
            } catch (JedisDataException error) {
                if (isExact || !error.getMessage().startsWith("UNCERTAIN ")) {
                    throw error;
                }
            }
        }
    }

    public static void main(String[] args) {
        AtomicBoolean ended = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                System.in.transferTo(OutputStream.nullOutputStream());
            } catch (IOException error) {
                // Standard input has ended.
            }
            ended.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        boolean isExact = args[1].equals("moves");
        long[] counts = new long[KEYS];
        long[] appended = new long[KEYS];
        int checks = 0;
        try (JedisCluster client = connect(Integer.parseInt(args[0]), isExact)) {
            for (int number = 0; !ended.get(); number++) {
                int index = number % KEYS;
                long got = patient(isExact, () -> client.incr("java:" + index));
                if (got <= counts[index] || isExact && got != counts[index] + 1) {
                    throw new AssertionError("java:" + index + " is " + got + " after " + counts[index]);
                }
                counts[index] = got;
                patient(isExact, () -> client.append("java:text:" + index, "x"));
                appended[index]++;
                checks++;
            }
            for (int key = 0; key < KEYS; key++) {
                int index = key;
                long length = patient(isExact, () -> client.strlen("java:text:" + index));
                if (length < appended[index] || isExact && length != appended[index]) {
                    throw new AssertionError("java:text:" + index + " has " + length + ", not " + appended[index]);
                }
                checks++;
            }
        }
        System.out.println(checks + " checks passed");
    }
}
