// SPDX-License-Identifier: BSD-3-Clause
// ioredis with sentinels follows a failover of a group. Usage: node sentinel.mjs GROUP PORT...
//
// Increments a counter; prints "started" once that works, and "followed COUNT" after some failures and many
// successes. Run by tests/group/discovery.rs, which kills the primary in between.
import Redis from "ioredis";

const [name, ...ports] = process.argv.slice(2);
const client = new Redis({
  name,
  sentinels: ports.map((port) => ({ host: "127.0.0.1", port: Number(port) })),
  maxRetriesPerRequest: 0,
  connectTimeout: 500,
  commandTimeout: 500,
  retryStrategy: () => 50,
  sentinelRetryStrategy: () => 50,
  reconnectOnError: () => 2,
});
client.on("error", () => {});

let failures = 0;
let successes = 0;
const deadline = Date.now() + 60_000;
while (Date.now() < deadline) {
  let count;
  try {
    count = await client.incr("n");
  } catch {
    failures += 1;
    successes = 0;
    await new Promise((resolve) => setTimeout(resolve, 20));
    continue;
  }
  successes += 1;
  // The first connection may take some attempts.
  if (successes === 5 && failures < 5) {
    failures = 0;
    console.log("started");
  }
  if (failures > 0 && successes === 20) {
    console.log(`followed ${count}`);
    process.exit(0);
  }
}
console.error(`no success: ${failures} failures`);
process.exit(1);
