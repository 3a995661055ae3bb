// SPDX-License-Identifier: BSD-3-Clause
// Calls of the test suites of ioredis and node-redis that servers have answered wrongly.
// Usage: node suite_calls.mjs PORT
//
// The server reports redis_version 8.0.6. Every check throws on failure; the last line is
// "N checks passed". Run by tests/clients/main.rs.
import assert from "node:assert/strict";
import Redis from "ioredis";
import { createClient } from "redis";
import { check, finish, until } from "../checks.mjs";

const port = Number(process.argv[2]);

// Both libraries as functions from words to a reply.
async function viaIoredis() {
  const client = new Redis({ port, host: "127.0.0.1" });
  return { call: (...words) => client.call(...words), close: () => client.disconnect() };
}

async function viaNodeRedis() {
  const client = createClient({ socket: { port, host: "127.0.0.1" } });
  client.on("error", () => {});
  await client.connect();
  return { call: (...words) => client.sendCommand(words), close: () => client.disconnect() };
}

// Every connection sees an endless script or function and can kill it, once, long before
// busy-reply-threshold.
async function kills(open) {
  const { call, close } = await open();
  const loop = "callback=function() while true do end end, flags={'no-writes'}";
  await call("FUNCTION", "LOAD", "REPLACE", `#!lua name=loops\nredis.register_function{function_name='loop', ${loop}}`);
  const runs = [
    [["EVAL", "while true do end", "0"], "SCRIPT"],
    [["EVAL_RO", "while true do redis.call('get', KEYS[1]) end", "1", "k"], "SCRIPT"],
    [["FCALL", "loop", "0"], "FUNCTION"],
  ];
  const asking = await Promise.all(Array.from({ length: 6 }, open));
  for (const [words, kind] of runs) {
    for (const { call: ask } of asking) {
      const running = await open();
      const ended = running.call(...words).then(() => "", (error) => error.message);
      if (kind === "FUNCTION") {
        await until("the function to be visible", async () => (await ask("FUNCTION", "STATS"))[1] !== null);
        check(await ask(kind, "KILL"), "OK", `${kind} KILL`);
      } else {
        await until("the script to be killed", () => ask(kind, "KILL").then(() => true, () => false));
      }
      check(/kill/i.test(await ended), true, `${words[0]} ends`);
      running.close();
    }
  }
  await assert.rejects(call("SCRIPT", "KILL"), /NOTBUSY/);
  asking.forEach((each) => each.close());
  close();
}

async function others(open) {
  const { call, close } = await open();
  for (const rule of ["+cluster", "-slaveof", "-migrate", "+cluster|slots", "+@all"]) {
    check(await call("ACL", "SETUSER", "suite", rule), "OK", rule);
  }
  for (const words of [["CLUSTER", "INFO"], ["CLUSTER", "SLOTS"], ["READONLY"], ["READWRITE"], ["ASKING"]]) {
    await assert.rejects(call(...words), /This instance has cluster support disabled/);
  }
  check(await call("REPLICAOF", "NO", "ONE"), "OK", "REPLICAOF NO ONE");
  await assert.rejects(call("FAILOVER", "ABORT"), /No failover in progress/);
  check((await call("INFO", "server")).includes("redis_version:8.0.6\r\n"), true, "redis_version");
  check(await call("EVAL", "return server.call('SET', KEYS[1], ARGV[1])", "1", "own", "v"), "OK", "server.call");
  check(await call("EVAL", "return server.call('GET', KEYS[1])", "1", "own"), "v", "the value set by server.call");
  const twin = "#!lua name=twin\nserver.register_function('twin', function(keys) return server.call('GET', keys[1]) end)";
  check(await call("FUNCTION", "LOAD", "REPLACE", twin), "twin", "server.register_function");
  check(await call("FCALL", "twin", "1", "own"), "v", "the registered function");
  check(await call("SCRIPT", "SHOW", await call("SCRIPT", "LOAD", "return 7")), "return 7", "SCRIPT SHOW");
  await call("SET", "bits", "foobar");
  check(await call("BITCOUNT", "bits", "1"), 22, "BITCOUNT from a start to the end");
  check(await call("CLIENT", "CAPA", "redirect"), "OK", "CLIENT CAPA");
  check((await call("CLIENT", "LIST")).includes(" capa=r"), true, "capa= in CLIENT LIST");
  check(await call("CLIENT", "IMPORT-SOURCE", "OFF"), "OK", "CLIENT IMPORT-SOURCE");
  await call("DEL", "st");
  for (const id of ["1-1", "2-1", "3-1"]) await call("XADD", "st", id, "n", id);
  check(await call("XREAD", "STREAMS", "st", "+"), [["st", [["3-1", ["n", "3-1"]]]]], "XREAD from the last entry");
  await call("XGROUP", "CREATE", "st", "g", "0", "ENTRIESREAD", "9");
  const group = (await call("XINFO", "GROUPS", "st"))[0];
  check(group[group.indexOf("lag") + 1], 3, "lag with ENTRIESREAD ahead");
  check((await call("INFO", "clients")).includes("\r\nwatching_clients:0\r\n"), true, "watching_clients");
  close();
}

for (const open of [viaIoredis, viaNodeRedis]) {
  await kills(open);
  await others(open);
}
finish();
