// SPDX-License-Identifier: BSD-3-Clause
// The JSON methods of Jedis, in RESP2 and RESP3. Usage: JsonTest PORT
//
// Every check throws on failure; the last line is "N checks passed". Run by tests/clients/main.rs; a
// Redis Stack passes it too.

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.json.JSONArray;
import org.json.JSONObject;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPooled;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.json.JsonSetParams;
import redis.clients.jedis.json.Path;
import redis.clients.jedis.json.Path2;

public class JsonTest {
    private static int checks;

    private static void check(Object got, Object expected, String what) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError(what + ": got " + got + ", expected " + expected);
        }
        checks++;
    }

    private static Path2 path(String text) {
        return Path2.of(text);
    }

    private static String text(Object json) {
        return json.toString();
    }

    private static void documents(JedisPooled client) {
        String document = "{\"a\":1,\"f\":1.5,\"s\":\"text\",\"b\":true,\"l\":[1,\"x\",2.5],\"o\":{\"a\":null}}";
        check(client.jsonSet("doc", Path2.ROOT_PATH, document), "OK", "JSON.SET");
        check(client.jsonSet("doc", Path2.ROOT_PATH, "1", JsonSetParams.jsonSetParams().nx()), null, "JSON.SET NX");
        check(new JSONArray(text(client.jsonGet("doc", path("$.l[2]")))).getDouble(0), 2.5, "JSON.GET of a path");
        JSONObject several = new JSONObject(text(client.jsonGet("doc", path("$.a"), path("$.s"))));
        check(several.getJSONArray("$.s").getString(0), "text", "JSON.GET of several paths");
        check(client.jsonGet("none"), null, "JSON.GET of a missing key");
        check(new JSONArray(text(client.jsonNumIncrBy("doc", path("$.a"), 2))).getInt(0), 3, "JSON.NUMINCRBY");
        check(client.jsonStrAppend("doc", path("$.s"), " more"), List.of(9L), "JSON.STRAPPEND");
        check(client.jsonStrLen("doc", path("$.s")), List.of(9L), "JSON.STRLEN");
        check(client.jsonArrAppend("doc", path("$.l"), "\"y\"", "{\"z\":1}"), List.of(5L), "JSON.ARRAPPEND");
        check(client.jsonArrIndex("doc", path("$.l"), "\"y\""), List.of(3L), "JSON.ARRINDEX");
        check(client.jsonArrInsert("doc", path("$.l"), 0, "\"first\""), List.of(6L), "JSON.ARRINSERT");
        check(client.jsonArrLen("doc", path("$.l")), List.of(6L), "JSON.ARRLEN");
        check(text(client.jsonArrPop("doc", path("$.l")).get(0)).contains("z"), true, "JSON.ARRPOP");
        check(client.jsonArrTrim("doc", path("$.l"), 1, 2), List.of(2L), "JSON.ARRTRIM");
        check(client.jsonObjKeys("doc", path("$.o")), List.of(List.of("a")), "JSON.OBJKEYS");
        check(client.jsonObjLen("doc", path("$")), List.of(6L), "JSON.OBJLEN");
        check(client.jsonMerge("doc", path("$.o"), "{\"a\":5,\"n\":\"new\"}"), "OK", "JSON.MERGE");
        check(text(client.jsonGet("doc", path("$.o.n"))), "[\"new\"]", "JSON.GET after JSON.MERGE");
        client.jsonSet("one", Path2.ROOT_PATH, "1");
        List<JSONArray> values = client.jsonMGet(Path2.ROOT_PATH, "one", "none");
        check(Arrays.asList(values.get(0).toString(), values.get(1)), Arrays.asList("[1]", null), "JSON.MGET");
        check(client.jsonDel("doc", path("$.o.n")), 1L, "JSON.DEL");
        check(client.jsonToggle("doc", path("$.b")), List.of(false), "JSON.TOGGLE");
        check(client.jsonClear("doc", path("$.l")), 1L, "JSON.CLEAR");
        check(client.type("doc"), "ReJSON-RL", "TYPE");
        try {
            client.jsonArrInsert("doc", path("$.l"), 5, "1");
            throw new AssertionError("an index out of bounds must fail");
        } catch (JedisDataException error) {
            check(error.getMessage().contains("index out of bounds"), true, "error text");
        }
    }

    @SuppressWarnings("deprecation")
    private static void olderPaths(JedisPooled client, RedisProtocol protocol) {
        check(client.jsonGet("doc", Path.of(".s")), "text more", "JSON.GET of an older path");
        check(client.jsonStrLen("doc", Path.of(".s")), 9L, "JSON.STRLEN of an older path");
        // In RESP3 this Jedis cannot read the reply, not of Redis Stack either.
        if (protocol == RedisProtocol.RESP2) {
            check(client.jsonType("doc", Path.of(".s")), String.class, "JSON.TYPE of an older path");
        }
    }

    public static void main(String[] arguments) {
        HostAndPort address = new HostAndPort("127.0.0.1", Integer.parseInt(arguments[0]));
        for (RedisProtocol protocol : RedisProtocol.values()) {
            var config = DefaultJedisClientConfig.builder().protocol(protocol).socketTimeoutMillis(20_000).build();
            try (JedisPooled client = new JedisPooled(address, config)) {
                client.flushAll();
                documents(client);
                olderPaths(client, protocol);
            }
        }
        System.out.println(checks + " checks passed");
    }
}
