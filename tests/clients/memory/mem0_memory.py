# SPDX-License-Identifier: BSD-3-Clause
"""mem0, a memory of agents: memories by user, found by what they say. It needs an older RedisVL than the libraries of
`ai`, whose checks it shares."""

import hashlib
import os
import sys
import tempfile

os.environ["MEM0_TELEMETRY"] = "False"
os.environ["MEM0_DIR"] = tempfile.mkdtemp()
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ai"))

from mem0.vector_stores.redis import RedisDB

from checks import URL, done, same, true

DIM = 64


def vector(text):
    """A vector of the words of a text: no model is loaded."""
    found = [0.0] * DIM
    for word in text.lower().split():
        found[int(hashlib.md5(word.encode()).hexdigest(), 16) % DIM] += 1.0
    return found


def payload(user, text, **more):
    digest = hashlib.md5(text.encode()).hexdigest()
    return {"user_id": user, "hash": digest, "data": text, "created_at": "2026-01-02T03:04:05+00:00", **more}


def main():
    store = RedisDB(URL, "memories", DIM)
    true("memories" in store.list_cols())
    texts = [("ann", "likes strong coffee"), ("ann", "lives in a small town"), ("bob", "likes green tea")]
    ids = [f"memory-{number}" for number in range(len(texts))]
    store.insert(
        [vector(text) for _, text in texts],
        [payload(user, text, mood="good") for user, text in texts],
        ids,
    )
    found = store.search("likes coffee", vector("likes coffee"), top_k=3, filters={"user_id": "ann"})
    same([one.id for one in found], ids[:2])
    same((found[0].payload["data"], found[0].payload["mood"]), ("likes strong coffee", "good"))
    true(found[0].score > found[1].score)
    same(store.search("tea", vector("tea"), top_k=1)[0].payload["user_id"], "bob")
    same(len(store.list(filters={"user_id": "ann"})[0]), 2)
    same(len(store.list(top_k=2)[0]), 2)
    changed = payload("ann", "lives in a big city", updated_at="2026-02-03T04:05:06+00:00")
    store.update(ids[1], vector(changed["data"]), changed)
    same(store.get(ids[1]).payload["data"], "lives in a big city")
    same(store.search("city", vector("big city"), top_k=1)[0].id, ids[1])
    store.delete(ids[0])
    same([one.id for one in store.list(filters={"user_id": "ann"})[0]], [ids[1]])
    same(int(store.col_info("memories")["num_docs"]), 2)
    store.reset()
    same(store.list()[0], [])
    store.delete_col()
    true("memories" not in store.list_cols())
    done()


main()
