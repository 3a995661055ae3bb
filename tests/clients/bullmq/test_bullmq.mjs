// SPDX-License-Identifier: BSD-3-Clause
// Job queues with BullMQ, which does nearly all of its work in Lua scripts on many keys.
// Usage: node test_bullmq.mjs PORT
//
// Every check throws on failure; the last line is "N checks passed". Run by tests/clients/main.rs.
import assert from "node:assert/strict";
import { FlowProducer, Queue, QueueEvents, UnrecoverableError, Worker } from "bullmq";
import { check, finish, until } from "../checks.mjs";

const connection = { host: "127.0.0.1", port: Number(process.argv[2]), maxRetriesPerRequest: null };

async function everyJobIsDoneOnce() {
  const queue = new Queue("once", { connection });
  const events = new QueueEvents("once", { connection });
  await events.waitUntilReady();
  const done = new Map();
  const work = async (job) => {
    done.set(job.id, (done.get(job.id) ?? 0) + 1);
    await job.updateProgress(50);
    return job.data.number * 2;
  };
  const workers = [1, 2, 3].map(() => new Worker("once", work, { connection, concurrency: 5 }));
  const jobs = await queue.addBulk(Array.from({ length: 300 }, (_, number) => ({ name: "double", data: { number } })));
  const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 30_000)));
  check(results, jobs.map((_, number) => number * 2), "results of 300 jobs");
  check([...done.values()].every((count) => count === 1), true, "each job runs once");
  check(done.size, 300, "no job is skipped");
  const counts = await queue.getJobCounts("completed", "failed", "waiting", "active");
  check(counts, { completed: 300, failed: 0, waiting: 0, active: 0, paused: 0 }, "counts");
  check((await queue.getJob(jobs[7].id)).progress, 50, "progress");
  await Promise.all(workers.map((worker) => worker.close()));
  await events.close();
  await queue.obliterate();
  check(await queue.getJobCountByTypes("completed"), 0, "obliterated");
  await queue.close();
}

async function failuresAreTriedAgain() {
  const queue = new Queue("retries", { connection });
  const events = new QueueEvents("retries", { connection });
  await events.waitUntilReady();
  const worker = new Worker(
    "retries",
    async (job) => {
      if (job.name === "hopeless") throw new UnrecoverableError("never");
      if (job.attemptsMade < 2) throw new Error("not yet");
      return "at last";
    },
    { connection },
  );
  const options = { attempts: 5, backoff: { type: "exponential", delay: 20 } };
  const [late, hopeless] = [await queue.add("late", {}, options), await queue.add("hopeless", {}, options)];
  check(await late.waitUntilFinished(events, 30_000), "at last", "the third attempt succeeds");
  await assert.rejects(hopeless.waitUntilFinished(events, 30_000), /never/);
  const [lateNow, hopelessNow] = [await queue.getJob(late.id), await queue.getJob(hopeless.id)];
  check([lateNow.attemptsMade, hopelessNow.attemptsMade], [3, 1], "attempts");
  check(await hopelessNow.getState(), "failed", "state");
  await hopelessNow.retry();
  await until("the second failure", async () => (await queue.getJob(hopeless.id)).attemptsMade === 2);
  await worker.close();
  await events.close();
  await queue.close();
}

async function ordersAreKept() {
  const queue = new Queue("orders", { connection });
  await queue.pause();
  await queue.add("a", {}, { priority: 3 });
  await queue.add("b", {}, { priority: 1 });
  await queue.add("c", {});
  await queue.add("d", {}, { lifo: true });
  await queue.add("e", {}, { priority: 2 });
  const delayed = await queue.add("late", {}, { delay: 3_600_000 });
  check(await delayed.getState(), "delayed", "a delayed job");
  const same = await Promise.all([1, 2, 3].map(() => queue.add("same", {}, { jobId: "only-one" })));
  check(new Set(same.map((job) => job.id)).size, 1, "one id, one job");
  const order = [];
  const worker = new Worker("orders", async (job) => void order.push(job.name), { connection });
  await worker.waitUntilReady();
  check(order, [], "no job runs while paused");
  await queue.resume();
  await until("all jobs but the late one", () => order.length === 6);
  check(order, ["d", "c", "same", "b", "e", "a"], "LIFO, FIFO and priorities");
  check(await delayed.getState(), "delayed", "still delayed");
  await delayed.changeDelay(50);
  await until("the late job", () => order.length === 7);
  check(order.at(-1), "late", "an expired delay");
  await worker.close();
  await queue.close();
}

async function flowsWaitForTheirChildren() {
  const flow = new FlowProducer({ connection });
  const order = [];
  const work = async (job) => {
    order.push(job.name);
    return job.name === "parent" ? Object.values(await job.getChildrenValues()).sort() : job.data.value;
  };
  const workers = ["parents", "children"].map((name) => new Worker(name, work, { connection, concurrency: 3 }));
  const events = new QueueEvents("parents", { connection });
  await events.waitUntilReady();
  const tree = await flow.add({
    name: "parent",
    queueName: "parents",
    children: [1, 2, 3].map((value) => ({ name: "child", queueName: "children", data: { value } })),
  });
  check(await tree.job.waitUntilFinished(events, 30_000), [1, 2, 3], "the children's results");
  check(order.at(-1), "parent", "the parent runs last");
  await Promise.all(workers.map((worker) => worker.close()));
  await events.close();
  await flow.close();
}

async function ratesAndSchedulesAreKept() {
  const queue = new Queue("limited", { connection });
  const times = [];
  const limiter = { max: 5, duration: 200 };
  const worker = new Worker("limited", async () => void times.push(Date.now()), { connection, limiter, concurrency: 10 });
  await queue.addBulk(Array.from({ length: 15 }, () => ({ name: "job", data: {} })));
  await until("all jobs", () => times.length === 15);
  // The third window opens 400 ms after the first, whose start is not known here to the millisecond.
  check(times.at(-1) - times[0] >= 250, true, `15 jobs, 5 in 200 ms, took ${times.at(-1) - times[0]} ms`);
  const before = times.length;
  await queue.upsertJobScheduler("often", { every: 50 }, { name: "tick" });
  await until("three ticks", () => times.length >= before + 3);
  check((await queue.getJobSchedulers()).length, 1, "one scheduler");
  check(await queue.removeJobScheduler("often"), true, "removed");
  await worker.close();
  await queue.close();
}

// If a worker dies in the middle of a job, another worker finishes it.
async function stalledJobsAreTakenOver() {
  const queue = new Queue("stalled", { connection });
  let started;
  const begun = new Promise((resolve) => (started = resolve));
  const options = { connection, lockDuration: 300, stalledInterval: 200 };
  const dead = new Worker("stalled", async () => { started(); await new Promise(() => {}); }, { ...options, lockRenewTime: 1e9 });
  dead.on("error", () => {});
  const job = await queue.add("job", {});
  await begun;
  const events = new QueueEvents("stalled", { connection });
  await events.waitUntilReady();
  const alive = new Worker("stalled", async () => "taken over", { ...options, maxStalledCount: 10 });
  check(await job.waitUntilFinished(events, 30_000), "taken over", "a stalled job");
  await dead.close(true);
  await alive.close();
  await events.close();
  await queue.close();
}

await everyJobIsDoneOnce();
await failuresAreTriedAgain();
await ordersAreKept();
await flowsWaitForTheirChildren();
await ratesAndSchedulesAreKept();
await stalledJobsAreTakenOver();
finish();
