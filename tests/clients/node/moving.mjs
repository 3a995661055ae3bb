// SPDX-License-Identifier: BSD-3-Clause
// The cluster clients of ioredis and node-redis while the cluster changes. Usage: moving.mjs PORT moves|failover
//
// They increment counters on many keys until standard input ends: every reply must be correct, and no error may
// occur. With `failover`, primaries die: a request whose connection breaks is retried, so an increment may count
// twice, but a counter never goes back. ioredis retries by itself. node-redis does not: it keeps using the dead
// node until that node replies MOVED, so the program reconnects, as it must with any cluster. The last line is
// "N checks passed". Run by tests/clients/moving.rs.
import { setTimeout as sleep } from "node:timers/promises";
import Redis from "ioredis";
import { createCluster } from "redis";
import { check, finish } from "../checks.mjs";

const port = Number(process.argv[2]);
const isExact = process.argv[3] === "moves";
const KEYS = 200;
let hasEnded = false;
process.stdin.on("end", () => { hasEnded = true; }).resume();

async function count(name, client) {
  const counts = new Array(KEYS).fill(0);
  const appended = new Array(KEYS).fill(0);
  for (let number = 0; !hasEnded; number++) {
    const index = number % KEYS;
    const got = await client.incr(`${name}:${index}`);
    checkCount(got, counts[index] + 1, `${name}:${index}`);
    counts[index] = got;
    await client.append(`${name}:text:${index}`, "x");
    appended[index] += 1;
  }
  for (let index = 0; index < KEYS; index++) {
    const text = await client.get(`${name}:text:${index}`);
    checkCount((text ?? "").length, appended[index], `${name}:text:${index}`);
  }
}

// Checks a count, which may be higher with `failover`.
function checkCount(got, wanted, what) {
  check(isExact ? got : Math.min(got, wanted), wanted, `${what}: ${got}`);
}

// True for the answer that the outcome is unknown, which a primary may give when it steps down.
function isUncertain(error) { return error.message.startsWith("UNCERTAIN "); }

// An ioredis client that calls again after such an answer.
class Patient {
  constructor(client) { this.client = client; }

  async call(name, ...words) {
    for (;;) {
      try {
        return await this.client[name](...words);
      } catch (error) {
        if (isExact || !this.mayCallAgain(error)) throw error;
        await this.renew();
      }
    }
  }

  mayCallAgain(error) { return isUncertain(error); }
  async renew() { await sleep(50); }

  incr(...words) { return this.call("incr", ...words); }
  append(...words) { return this.call("append", ...words); }
  get(...words) { return this.call("get", ...words); }
}

// A node-redis client that is replaced when a request fails because of its connection.
class Renewed extends Patient {
  static async connect(urls) {
    const client = createCluster({
      rootNodes: urls.map((url) => ({ url })),
      defaults: isExact ? {} : { disableOfflineQueue: true, socket: { reconnectStrategy: false } },
    });
    client.on("error", (error) => { if (isExact) throw error; });
    await client.connect();
    return client;
  }

  mayCallAgain(error) { return error.constructor.name !== "ErrorReply" || isUncertain(error); }

  async renew() {
    const { masters, replicas } = this.client;
    const urls = [...masters, ...replicas].map((node) => `redis://${node.address}`);
    await this.client.disconnect().catch(() => {});
    for (;;) {
      await sleep(50);
      try {
        this.client = await Renewed.connect(urls);
        return;
      } catch { /* The primary is not known yet. */ }
    }
  }
}

// Enough retries for a lease to expire and a replica to take over.
const patient = isExact ? {} : { maxRedirections: 200, retryDelayOnFailover: 100 };
const one = new Redis.Cluster([{ host: "127.0.0.1", port }], patient);
const other = new Renewed(await Renewed.connect([`redis://127.0.0.1:${port}`]));
await Promise.all([count("ioredis", new Patient(one)), count("node-redis", other)]);
finish();
