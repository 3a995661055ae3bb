// SPDX-License-Identifier: BSD-3-Clause
// Typical work through Jedis, in RESP2 and RESP3. Usage: ClientTest PORT
//
// Every check throws on failure; the last line is "N checks passed". Run by tests/clients/main.rs.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.resps.ScanResult;

public class ClientTest {
    private static int checks;

    private static void check(Object got, Object expected, String what) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError(what + ": got " + got + ", expected " + expected);
        }
        checks++;
    }

    private static Jedis open(int port, RedisProtocol protocol) {
        var config = DefaultJedisClientConfig.builder().protocol(protocol).socketTimeoutMillis(20_000).build();
        return new Jedis(new HostAndPort("127.0.0.1", port), config);
    }

    private static void strings(Jedis client) {
        check(client.set("s", "value", SetParams.setParams().ex(100)), "OK", "SET EX");
        check(client.get("s"), "value", "GET");
        check(client.ttl("s") > 98, true, "TTL");
        check(client.set("s", "other", SetParams.setParams().nx()), null, "SET NX on an existing key");
        check(client.mset("a", "1", "b", "2"), "OK", "MSET");
        check(client.mget("a", "nosuch", "b"), Arrays.asList("1", null, "2"), "MGET");
        check(client.incrBy("a", 41), 42L, "INCRBY");
        check(client.incrByFloat("f", 0.5), 0.5, "INCRBYFLOAT");
        check(client.getrange("s", 1, 3), "alu", "GETRANGE");
        check(client.bitfield("bf", "SET", "u8", "0", "200", "INCRBY", "u8", "0", "10"), List.of(0L, 210L), "BITFIELD");
        byte[] binary = new byte[25_600];
        for (int at = 0; at < binary.length; at++) {
            binary[at] = (byte) at;
        }
        client.set(new byte[] {0, -1}, binary);
        check(Arrays.equals(client.get(new byte[] {0, -1}), binary), true, "binary keys and values");
        client.set("text", "abc");
        try {
            client.incr("text");
            throw new AssertionError("INCR of text must fail");
        } catch (JedisDataException error) {
            check(error.getMessage().contains("not an integer"), true, "error text");
        }
        check(client.getDel("text"), "abc", "GETDEL");
        check(client.get("text"), null, "GET of a missing key");
    }

    private static void keys(Jedis client) {
        client.set("from", "v");
        check(client.rename("from", "to"), "OK", "RENAME");
        check(client.copy("to", "copied", false), true, "COPY");
        check(client.type("copied"), "string", "TYPE");
        Pipeline pipeline = client.pipelined();
        List<Response<String>> replies = new ArrayList<>();
        for (int number = 0; number < 1000; number++) {
            replies.add(pipeline.set("scan:" + number, "v"));
        }
        pipeline.sync();
        for (Response<String> reply : replies) {
            check(reply.get(), "OK", "pipeline");
        }
        Set<String> found = new HashSet<>();
        String cursor = "0";
        do {
            ScanResult<String> result = client.scan(cursor, new ScanParams().match("scan:*").count(50));
            found.addAll(result.getResult());
            cursor = result.getCursor();
        } while (!cursor.equals("0"));
        check(found.size(), 1000, "SCAN");
    }

    private static void transactions(int port, RedisProtocol protocol, Jedis client) throws InterruptedException {
        Transaction transaction = client.multi();
        transaction.set("t", "1");
        Response<Long> number = transaction.incr("t");
        check(transaction.exec(), List.of("OK", 2L), "MULTI/EXEC");
        check(number.get(), 2L, "INCR inside MULTI");
        client.set("counter", "0");
        List<Thread> threads = new ArrayList<>();
        for (int worker = 0; worker < 4; worker++) {
            Thread thread = new Thread(() -> {
                try (Jedis own = open(port, protocol)) {
                    for (int done = 0; done < 50; ) {
                        own.watch("counter");
                        long value = Long.parseLong(own.get("counter"));
                        Transaction change = own.multi();
                        change.set("counter", Long.toString(value + 1));
                        if (change.exec() != null) {
                            done++;
                        }
                    }
                }
            });
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        check(client.get("counter"), "200", "WATCH under contention");
    }

    public static void main(String[] arguments) throws InterruptedException {
        int port = Integer.parseInt(arguments[0]);
        for (RedisProtocol protocol : RedisProtocol.values()) {
            try (Jedis client = open(port, protocol)) {
                client.flushAll();
                strings(client);
                keys(client);
                transactions(port, protocol, client);
                check(client.ping(), "PONG", "PING");
                check(client.configGet("timeout").get("timeout"), "0", "CONFIG GET");
                check(client.info("server").contains("redis_version"), true, "INFO");
            }
        }
        System.out.println(checks + " checks passed");
    }
}
