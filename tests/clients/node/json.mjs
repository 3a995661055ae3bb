// SPDX-License-Identifier: BSD-3-Clause
// The JSON methods of node-redis, and JSON commands through ioredis. Usage: node json.mjs PORT
//
// Every check throws on failure; the last line is "N checks passed". Run by tests/clients/main.rs; a
// Redis Stack passes it too.
import assert from "node:assert/strict";
import Redis from "ioredis";
import { createClient } from "redis";
import { check, finish } from "../checks.mjs";

const client = createClient({ socket: { host: "127.0.0.1", port: Number(process.argv[2]) } });
await client.connect();
await client.flushAll();
const { json } = client;

// A stock server lacks the commands.
if ((await client.sendCommand(["COMMAND", "INFO", "JSON.SET"]))[0] === null) {
  await assert.rejects(json.set("doc", "$", 1), /unknown command/);
  check(true, true, "no JSON commands");
  finish();
}

const document = { a: 1, f: 1.5, s: "text", b: true, l: [1, "x", 2.5], o: { a: null } };
check(await json.set("doc", "$", document), "OK", "JSON.SET");
check(await json.set("doc", "$", 1, { NX: true }), null, "JSON.SET NX");
check(await json.set("none", "$", 1, { XX: true }), null, "JSON.SET XX");
check(await json.get("doc"), document, "JSON.GET");
check(await json.get("doc", { path: "$.l[2]" }), [2.5], "JSON.GET of a path");
check(await json.get("doc", { path: ".s" }), "text", "JSON.GET of an older path");
check(await json.get("doc", { path: ["$.a", "$.s"] }), { "$.a": [1], "$.s": ["text"] }, "JSON.GET of several paths");
check(await json.get("none"), null, "JSON.GET of a missing key");
check(await json.type("doc", "$.l"), ["array"], "JSON.TYPE");
check(await json.numIncrBy("doc", "$.a", 2), [3], "JSON.NUMINCRBY");
check(await json.numMultBy("doc", "$.f", 2), [3], "JSON.NUMMULTBY");
check(await json.strAppend("doc", "$.s", " more"), [9], "JSON.STRAPPEND");
check(await json.strLen("doc", "$.s"), [9], "JSON.STRLEN");
check(await json.arrAppend("doc", "$.l", "y", { z: 1 }), [5], "JSON.ARRAPPEND");
check(await json.arrIndex("doc", "$.l", "y"), [3], "JSON.ARRINDEX");
check(await json.arrInsert("doc", "$.l", 0, "first"), [6], "JSON.ARRINSERT");
check(await json.arrLen("doc", "$.l"), [6], "JSON.ARRLEN");
check(await json.arrPop("doc", "$.l"), [{ z: 1 }], "JSON.ARRPOP");
check(await json.arrTrim("doc", "$.l", 1, 2), [2], "JSON.ARRTRIM");
check((await json.objKeys("doc", "$.o"))[0], ["a"], "JSON.OBJKEYS");
check(await json.objLen("doc"), 6, "JSON.OBJLEN");
check(await json.merge("doc", "$.o", { a: 5, n: "new" }), "OK", "JSON.MERGE");
check(await json.get("doc", { path: "$.o" }), [{ a: 5, n: "new" }], "JSON.GET after JSON.MERGE");
check(await json.mSet([{ key: "one", path: "$", value: 1 }, { key: "two", path: "$", value: [2] }]), "OK", "JSON.MSET");
check(await json.mGet(["one", "none", "two"], "$"), [[1], null, [[2]]], "JSON.MGET");
check(await json.del("doc", "$.o.n"), 1, "JSON.DEL");
check(await json.forget("doc", "$.o"), 1, "JSON.FORGET");
check(await client.sendCommand(["JSON.TOGGLE", "doc", "$.b"]), [0], "JSON.TOGGLE");
check(await client.sendCommand(["JSON.CLEAR", "doc", "$.l"]), 1, "JSON.CLEAR");
check(await json.get("doc"), { a: 3, f: 3, s: "text more", b: false, l: [] }, "the document after all");
await assert.rejects(json.get("doc", { path: ".none" }), /does not exist/);
await assert.rejects(json.arrInsert("doc", "$.l", 5, 1), /index out of bounds/);
check((await json.debugMemory("doc", "$.a")).length, 1, "JSON.DEBUG MEMORY");
const replies = await client.multi().json.set("doc", "$.a", 7).json.get("doc", { path: "$.a" }).exec();
check(replies, ["OK", [7]], "JSON in MULTI");
check(await client.type("doc"), "ReJSON-RL", "TYPE");
const other = new Redis({ port: Number(process.argv[2]), host: "127.0.0.1" });
check(await other.call("JSON.GET", "doc", "$.a"), "[7]", "JSON.GET through ioredis");
const pipeline = await other.pipeline().call("JSON.NUMINCRBY", "doc", "$.a", 1).call("JSON.GET", "doc", ".a").exec();
check(pipeline, [[null, "[8]"], [null, "8"]], "JSON in a pipeline of ioredis");
finish();
