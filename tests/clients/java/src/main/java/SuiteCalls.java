// SPDX-License-Identifier: BSD-3-Clause
// Calls of Jedis's own test suite that servers have answered wrongly. Usage: SuiteCalls PORT
//
// The server reports redis_version 8.0.6. Every check throws on failure; the last line is
// "N checks passed". Run by tests/clients/main.rs.

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.exceptions.JedisDataException;

public class SuiteCalls {
    private static int checks;
    private static int port;

    private static void check(Object got, Object expected, String what) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError(what + ": got " + got + ", expected " + expected);
        }
        checks++;
    }

    private static Jedis open() {
        return new Jedis("127.0.0.1", port, 20_000);
    }

    private static Object call(Jedis client, String name, String... words) {
        Object reply = client.sendCommand(() -> name.getBytes(StandardCharsets.UTF_8), words);
        return reply instanceof byte[] ? new String((byte[]) reply, StandardCharsets.UTF_8) : reply;
    }

    private static void refused(Jedis client, String text, String name, String... words) {
        try {
            call(client, name, words);
        } catch (JedisDataException error) {
            check(error.getMessage().contains(text), true, name + ": " + error.getMessage());
            return;
        }
        throw new AssertionError(name + " must be refused: " + text);
    }

    /** Every connection sees an endless script or function and can kill it, once, long before busy-reply-threshold. */
    private static void kills(Jedis client) throws Exception {
        client.functionLoadReplace("#!lua name=loops\nredis.register_function{function_name='loop', "
            + "callback=function() while true do end end, flags={'no-writes'}}");
        var runs = List.of(
            List.of("SCRIPT", "EVAL", "while true do end", "0"),
            List.of("SCRIPT", "EVAL_RO", "while true do redis.call('get', KEYS[1]) end", "1", "k"),
            List.of("FUNCTION", "FCALL", "loop", "0"));
        for (var run : runs) {
            for (int round = 0; round < 6; round++) {
                var words = run.subList(2, run.size()).toArray(new String[0]);
                // Connect first: a connection's first commands may go to the thread that runs the script, and wait.
                try (Jedis asking = open()) {
                    asking.ping();
                    var ended = CompletableFuture.supplyAsync(() -> {
                        try (Jedis runner = open()) {
                            return String.valueOf(call(runner, run.get(1), words));
                        } catch (JedisDataException error) {
                            return error.getMessage().toLowerCase();
                        }
                    });
                    long until = System.nanoTime() + 4_000_000_000L;
                    while (true) {
                        try {
                            check(call(asking, run.get(0), "KILL"), "OK", "KILL");
                            break;
                        } catch (JedisDataException error) {
                            check(error.getMessage().startsWith("NOTBUSY"), true, error.getMessage());
                            check(System.nanoTime() < until, true, "killed in time");
                        }
                    }
                    check(ended.get().contains("kill"), true, run.get(1) + " ends");
                }
            }
        }
        refused(client, "NOTBUSY", "SCRIPT", "KILL");
        refused(client, "NOTBUSY", "FUNCTION", "KILL");
    }

    private static void others(Jedis client) {
        for (String rule : List.of("+cluster", "-slaveof", "-migrate", "+cluster|slots", "+@all")) {
            check(client.aclSetUser("suite", rule), "OK", rule);
        }
        String disabled = "This instance has cluster support disabled";
        refused(client, disabled, "CLUSTER", "INFO");
        refused(client, disabled, "CLUSTER", "SLOTS");
        refused(client, disabled, "READONLY");
        refused(client, disabled, "READWRITE");
        refused(client, disabled, "ASKING");
        refused(client, "No failover in progress", "FAILOVER", "ABORT");
        check(client.replicaofNoOne(), "OK", "REPLICAOF NO ONE");
        check(client.info("server").contains("redis_version:8.0.6"), true, "redis_version");
        check(client.eval("return server.call('SET', KEYS[1], ARGV[1])", 1, "own", "v"), "OK", "server.call");
        check(client.functionLoadReplace("#!lua name=twin\nserver.register_function('twin', "
            + "function(keys) return server.call('GET', keys[1]) end)"), "twin", "server.register_function");
        check(client.fcall("twin", List.of("own"), List.of()), "v", "the registered function");
        check(call(client, "SCRIPT", "SHOW", client.scriptLoad("return 7")), "return 7", "SCRIPT SHOW");
        client.set("bits", "foobar");
        check(call(client, "BITCOUNT", "bits", "1"), 22L, "BITCOUNT from a start to the end");
        check(call(client, "CLIENT", "CAPA", "redirect"), "OK", "CLIENT CAPA");
        check(client.clientList().contains(" capa=r"), true, "capa= in CLIENT LIST");
        check(call(client, "CLIENT", "IMPORT-SOURCE", "OFF"), "OK", "CLIENT IMPORT-SOURCE");
        client.del("st");
        for (String id : List.of("1-1", "2-1", "3-1")) {
            call(client, "XADD", "st", id, "n", id);
        }
        check(((List<?>) call(client, "XREAD", "STREAMS", "st", "+")).size(), 1, "XREAD from the last entry");
        call(client, "XGROUP", "CREATE", "st", "g", "0", "ENTRIESREAD", "9");
        check(client.xinfoGroups("st").get(0).getGroupInfo().get("lag"), 3L, "lag with ENTRIESREAD ahead");
        String all = client.info("everything");
        for (String field : List.of("allocator_muzzy", "evicted_scripts", "total_watched_keys", "watching_clients")) {
            check(all.contains("\n" + field + ":"), true, field);
        }
    }

    public static void main(String[] arguments) throws Exception {
        port = Integer.parseInt(arguments[0]);
        try (Jedis client = open()) {
            client.flushAll();
            kills(client);
            others(client);
        }
        System.out.println(checks + " checks passed");
    }
}
