// SPDX-License-Identifier: BSD-3-Clause
// Three Socket.IO servers that share rooms through a Redis adapter: the usual one (patterns and channels),
// and the one for sharded channels. Usage: node test_socketio.mjs PORT
//
// Every check throws on failure; the last line is "N checks passed". Run by tests/clients/main.rs.
import { createServer } from "node:http";
import { createAdapter, createShardedAdapter } from "@socket.io/redis-adapter";
import Redis from "ioredis";
import { Server } from "socket.io";
import { io } from "socket.io-client";
import { check, finish, until } from "../checks.mjs";

const port = Number(process.argv[2]);

async function startNode(makeAdapter, number) {
  const publisher = new Redis({ port, host: "127.0.0.1" });
  const subscriber = publisher.duplicate();
  const http = createServer();
  const server = new Server(http, { adapter: makeAdapter(publisher, subscriber) });
  server.on("connection", (socket) => {
    socket.on("join", async (room, done) => {
      await socket.join(room);
      done();
    });
    socket.on("say", (room, text) => socket.to(room).emit("said", text));
    socket.on("ask", (question, answer) => answer(`${question} by ${number}`));
  });
  server.on("sum", (a, b, answer) => answer(a + b + number));
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${http.address().port}`;
  return { server, address, close: async () => {
    await server.close();
    publisher.disconnect();
    subscriber.disconnect();
  } };
}

// `listening`: whether all nodes receive the room's messages. The adapter does not wait for that when a
// client joins.
async function scenario(name, makeAdapter, listening) {
  const nodes = await Promise.all([1, 2, 3].map((number) => startNode(makeAdapter, number)));
  const clients = nodes.flatMap((node) => [0, 1].map(() => io(node.address, { transports: ["websocket"], forceNew: true })));
  const heard = clients.map(() => []);
  clients.forEach((client, at) => client.on("said", (text) => heard[at].push(text)));
  await until(`${name}: connections`, () => clients.every((client) => client.connected));
  // The nodes must know each other before any of them relies on answers from all.
  await until(`${name}: all nodes`, async () => (await nodes[0].server.fetchSockets()).length === 6);
  const all = (at) => clients.map((_, other) => other).filter((other) => other !== at);

  await Promise.all([0, 2, 4].map((at) => clients[at].emitWithAck("join", "room")));
  const link = new Redis({ port, host: "127.0.0.1" });
  await until(`${name}: all nodes to listen`, () => listening(link));
  link.disconnect();
  clients[0].emit("say", "room", "hello");
  await until(`${name}: a message in the room`, () => heard[2].length === 1 && heard[4].length === 1);
  check([heard[0], heard[2], heard[4]], [[], ["hello"], ["hello"]], `${name}: everyone in the room except the sender`);

  nodes[1].server.emit("said", "to everybody");
  await until(`${name}: a message to all`, () => heard.every((words) => words.at(-1) === "to everybody"));
  check(heard.map((words) => words.length), [1, 1, 2, 1, 2, 1], `${name}: each client once`);

  for (let number = 0; number < 500; number += 1) nodes[number % 3].server.to("room").emit("said", number);
  // The first client does not receive its own message.
  await until(`${name}: many messages`, () => [501, 502, 502].every((count, at) => heard[2 * at].length >= count));
  const ofNode = (words, node) => words.filter((word) => typeof word === "number" && word % 3 === node);
  for (const node of [0, 1, 2]) {
    const sent = Array.from({ length: 500 }, (_, number) => number).filter((number) => number % 3 === node);
    check([0, 2, 4].map((at) => ofNode(heard[at], node)), [sent, sent, sent], `${name}: order of node ${node}`);
  }
  check([1, 3, 5].map((at) => heard[at].length), [1, 1, 1], `${name}: no other client`);

  const rooms = await nodes[2].server.in("room").fetchSockets();
  check(rooms.map((socket) => socket.id).sort(), [0, 2, 4].map((at) => clients[at].id).sort(), `${name}: sockets in the room`);
  check((await nodes[0].server.serverSideEmitWithAck("sum", 10, 20)).sort(), [32, 33], `${name}: the other servers' answers`);
  const answers = await nodes[0].server.in("room").timeout(10_000).emitWithAck("said", "answer").catch(() => "none");
  check(answers, "none", `${name}: clients that do not answer`);

  nodes[0].server.in(clients[5].id).socketsJoin("room");
  await until(`${name}: a remote join`, async () => (await nodes[1].server.in("room").fetchSockets()).length === 4);
  nodes[0].server.in("room").disconnectSockets(true);
  await until(`${name}: a remote disconnection`, () => [0, 2, 4, 5].every((at) => !clients[at].connected));
  check(all(0).filter((at) => clients[at].connected), [1, 3], `${name}: remaining clients`);
  clients.forEach((client) => client.disconnect());
  await Promise.all(nodes.map((node) => node.close()));
}

await scenario("patterns", (publisher, subscriber) => createAdapter(publisher, subscriber), async () => true);
await scenario("sharded", (publisher, subscriber) => createShardedAdapter(publisher, subscriber),
  async (link) => (await link.call("PUBSUB", "SHARDNUMSUB", "socket.io#/#room#"))[1] === 3);
finish();
