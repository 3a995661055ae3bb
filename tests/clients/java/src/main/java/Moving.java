// SPDX-License-Identifier: BSD-3-Clause
// Jedis's JedisCluster while slots move. Usage: Moving PORT
//
// Counts on many keys until its standard input ends: every reply must be what it is to be, and no error may come. The
// last line is "N checks passed". Run by tests/clients/moving.rs.

import java.io.IOException;
import java.io.OutputStream;
import java.util.concurrent.atomic.AtomicBoolean;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;

public class Moving {
    private static final int KEYS = 200;

    public static void main(String[] args) {
        AtomicBoolean ended = new AtomicBoolean();
        Thread reader = new Thread(() -> {
            try {
                System.in.transferTo(OutputStream.nullOutputStream());
            } catch (IOException error) {
                // It has ended then.
            }
            ended.set(true);
        });
        reader.setDaemon(true);
        reader.start();
        long[] counts = new long[KEYS];
        int checks = 0;
        try (JedisCluster client = new JedisCluster(new HostAndPort("127.0.0.1", Integer.parseInt(args[0])))) {
            for (int number = 0; !ended.get(); number++) {
                int index = number % KEYS;
                counts[index]++;
                long got = client.incr("java:" + index);
                if (got != counts[index]) {
                    throw new AssertionError("java:" + index + " is " + got + ", not " + counts[index]);
                }
                client.append("java:text:" + index, "x");
                checks++;
            }
            for (int index = 0; index < KEYS; index++) {
                long length = client.strlen("java:text:" + index);
                if (length != counts[index]) {
                    throw new AssertionError("java:text:" + index + " has " + length + ", not " + counts[index]);
                }
                checks++;
            }
        }
        System.out.println(checks + " checks passed");
    }
}
