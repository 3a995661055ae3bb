// SPDX-License-Identifier: BSD-3-Clause
// Jedis's JedisCluster against one server in cluster mode. Usage: ClusterTest PORT
//
// Every check throws on failure; the last line is "N checks passed". Run by tests/clients/main.rs.

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.exceptions.JedisException;
import redis.clients.jedis.params.ScanParams;

public class ClusterTest {
    private static int checks;

    private static void check(Object got, Object expected, String what) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError(what + ": got " + got + ", expected " + expected);
        }
        checks++;
    }

    public static void main(String[] args) {
        int port = Integer.parseInt(args[0]);
        try (JedisCluster client = new JedisCluster(new HostAndPort("127.0.0.1", port))) {
            check(client.getClusterNodes().size(), 1, "nodes");
            for (int number = 0; number < 100; number++) {
                check(client.set("key:" + number, "" + number), "OK", "SET");
            }
            check(client.get("key:42"), "42", "GET");
            check(client.mget("{t}a", "{t}b"), Arrays.asList(null, null), "MGET in a slot");
            try {
                client.mget("a", "b");
                throw new AssertionError("MGET over slots must be refused");
            } catch (JedisException error) {
                checks++;
            }
            check(client.eval("return redis.call('get', KEYS[1])", List.of("key:7"), List.of()), "7", "EVAL");
            check(client.del("{t}a", "{t}b"), 0L, "DEL");
            try (var pipeline = client.pipelined()) {
                var first = pipeline.get("key:1");
                var second = pipeline.get("key:2");
                pipeline.sync();
                check(first.get() + second.get(), "12", "a pipeline over slots");
            }
            check(client.scan("0", new ScanParams().match("{t}*")).getResult().size(), 0, "SCAN of a slot");
            check(client.spublish("news", "hello"), 0L, "SPUBLISH");
        }
        System.out.println(checks + " checks passed");
    }
}
