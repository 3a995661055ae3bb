// SPDX-License-Identifier: BSD-3-Clause
// The cluster clients of ioredis and node-redis against one server in cluster mode. Usage: cluster.mjs PORT
//
// The last line is "N checks passed". Run by tests/clients/main.rs.
import Redis from "ioredis";
import { createCluster } from "redis";
import { check, finish, until } from "../checks.mjs";

const port = Number(process.argv[2]);

async function withIoredis() {
  const client = new Redis.Cluster([{ host: "127.0.0.1", port }]);
  await client.flushall();
  for (let n = 0; n < 100; n++) await client.set(`key:${n}`, n);
  check(await client.get("key:42"), "42", "GET");
  check(client.nodes("master").length, 1, "nodes");
  check(await client.mget("{t}a", "{t}b"), [null, null], "MGET in a slot");
  const error = await client.mget("a", "b").catch((error) => error.message);
  check(/same slot|CROSSSLOT/.test(error), true, `MGET over slots: ${error}`);
  const replies = await client.pipeline().incr("{c}a").incr("{c}a").exec();
  check(replies, [[null, 1], [null, 2]], "a pipeline");
  const multi = await client.multi().set("{m}a", 1).get("{m}a").exec();
  check(multi, [[null, "OK"], [null, "1"]], "a transaction");
  check(await client.eval("return redis.call('get', KEYS[1])", 1, "key:7"), "7", "EVAL");
  const subscriber = new Redis.Cluster([{ host: "127.0.0.1", port }]);
  const heard = [];
  subscriber.on("message", (channel, text) => heard.push([channel, text]));
  await subscriber.subscribe("news");
  check(await client.publish("news", "hello"), 1, "PUBLISH");
  await until("a message", () => heard.length > 0);
  check(heard, [["news", "hello"]], "the message");
  client.disconnect();
  subscriber.disconnect();
}

async function withNodeRedis() {
  const client = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] });
  client.on("error", (error) => { throw error; });
  await client.connect();
  check(client.masters.length, 1, "nodes");
  check(await client.get("key:42"), "42", "GET");
  check(await client.mGet(["{t}a", "{t}b"]), [null, null], "MGET in a slot");
  const error = await client.mGet(["a", "b"]).catch((error) => error.message);
  check(/CROSSSLOT/.test(error), true, `MGET over slots: ${error}`);
  check(await client.multi().set("{m}b", "1").get("{m}b").exec(), ["OK", "1"], "a transaction");
  // node-redis represents cursors as floating-point numbers.
  const node = await client.nodeClient(client.masters[0]);
  const found = new Set();
  let cursor = 0;
  do {
    const reply = await node.scan(cursor, { COUNT: 3 });
    cursor = reply.cursor;
    for (const key of reply.keys) found.add(key);
  } while (cursor !== 0);
  check(found.size, await node.dbSize(), "SCAN finds all keys");
  const heard = [];
  await client.sSubscribe("shard-news", (text) => heard.push(text));
  check(await client.sPublish("shard-news", "hello"), 1, "SPUBLISH");
  await until("a message", () => heard.length > 0);
  check(heard, ["hello"], "the message");
}

await withIoredis();
await withNodeRedis();
finish();
