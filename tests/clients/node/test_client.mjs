// SPDX-License-Identifier: BSD-3-Clause
// Typical work through ioredis. Usage: node test_client.mjs PORT
//
// Every check throws on failure; the last line is "N checks passed". Run by tests/clients/main.rs.
import assert from "node:assert/strict";
import Redis from "ioredis";
import { check, finish } from "../checks.mjs";

const port = Number(process.argv[2]);

const client = new Redis({ port, host: "127.0.0.1" });
await client.flushall();

check(await client.set("s", "value", "EX", 100), "OK", "SET EX");
check(await client.get("s"), "value", "GET");
check((await client.ttl("s")) > 98, true, "TTL");
check(await client.set("s", "other", "NX"), null, "SET NX on an existing key");
check(await client.mset({ a: "1", b: "2" }), "OK", "MSET");
check(await client.mget("a", "nosuch", "b"), ["1", null, "2"], "MGET");
check(await client.incrby("a", 41), 42, "INCRBY");
check(await client.getrange("s", 1, 3), "alu", "GETRANGE");
const binary = Buffer.from(Array.from({ length: 25600 }, (_, at) => at % 256));
await client.set(Buffer.from([0, 255, 13, 10]), binary);
check(binary.equals(await client.getBuffer(Buffer.from([0, 255, 13, 10]))), true, "binary keys and values");
await client.set("text", "abc");
await assert.rejects(client.incr("text"), /not an integer/);
check(await client.getdel("text"), "abc", "GETDEL");

// ioredis sends a thousand concurrent commands as one pipeline.
const many = await Promise.all(Array.from({ length: 1000 }, () => client.incr("many")));
check(many.at(-1), 1000, "a thousand commands in flight");
const replies = await client.pipeline().set("p", 1).incr("p").get("p").exec();
check(replies, [[null, "OK"], [null, 2], [null, "2"]], "pipeline");
const transaction = await client.multi().set("t", 1).incr("t").exec();
check(transaction, [[null, "OK"], [null, 2]], "MULTI/EXEC");

async function addWatched(own) {
  for (let done = 0; done < 50; ) {
    await own.watch("counter");
    const value = Number(await own.get("counter"));
    if ((await own.multi().set("counter", value + 1).exec()) !== null) {
      done += 1;
    }
  }
}
await client.set("counter", 0);
const workers = Array.from({ length: 4 }, () => client.duplicate());
await Promise.all(workers.map(addWatched));
check(await client.get("counter"), "200", "WATCH under contention");
workers.forEach((worker) => worker.disconnect());

await client.mset(Object.fromEntries(Array.from({ length: 1000 }, (_, at) => [`scan:${at}`, "v"])));
const found = new Set();
for await (const keys of client.scanStream({ match: "scan:*", count: 50 })) {
  keys.forEach((key) => found.add(key));
}
check(found.size, 1000, "SCAN");

const second = new Redis({ port, host: "127.0.0.1", db: 3, connectionName: "node" });
check(await second.client("GETNAME"), "node", "CLIENT GETNAME");
check(await second.get("a"), null, "another database");
check(await second.ping(), "PONG", "PING");
await second.quit();
await client.quit();
finish();
