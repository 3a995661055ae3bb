// SPDX-License-Identifier: BSD-3-Clause
// The cluster clients of ioredis and node-redis while slots move. Usage: moving.mjs PORT
//
// They count on many keys until standard input ends: every reply must be what it is to be, and no error may come. The
// last line is "N checks passed". Run by tests/clients/moving.rs.
import Redis from "ioredis";
import { createCluster } from "redis";
import { check, finish } from "../checks.mjs";

const port = Number(process.argv[2]);
const KEYS = 200;
let hasEnded = false;
process.stdin.on("end", () => { hasEnded = true; }).resume();

async function count(name, client) {
  const counts = new Array(KEYS).fill(0);
  for (let number = 0; !hasEnded; number++) {
    const index = number % KEYS;
    counts[index] += 1;
    check(await client.incr(`${name}:${index}`), counts[index], `${name}:${index}`);
    await client.append(`${name}:text:${index}`, "x");
  }
  for (let index = 0; index < KEYS; index++) {
    const text = await client.get(`${name}:text:${index}`);
    check((text ?? "").length, counts[index], `${name}:text:${index}`);
  }
}

const one = new Redis.Cluster([{ host: "127.0.0.1", port }]);
const other = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] });
other.on("error", (error) => { throw error; });
await other.connect();
await Promise.all([count("ioredis", one), count("node-redis", other)]);
finish();
