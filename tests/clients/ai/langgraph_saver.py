# SPDX-License-Identifier: BSD-3-Clause
"""LangGraph's checkpointer and store on Redis, with a graph that is interrupted and goes on."""

import hashlib
import operator
from typing import Annotated, TypedDict

from langgraph.checkpoint.redis import RedisSaver
from langgraph.checkpoint.redis.shallow import ShallowRedisSaver
from langgraph.graph import END, START, StateGraph
from langgraph.store.redis import RedisStore

from checks import URL, done, same, true


class State(TypedDict):
    steps: Annotated[list, operator.add]


def graph(saver):
    builder = StateGraph(State)
    builder.add_node("one", lambda state: {"steps": ["one"]})
    builder.add_node("two", lambda state: {"steps": ["two"]})
    builder.add_edge(START, "one")
    builder.add_edge("one", "two")
    builder.add_edge("two", END)
    return builder.compile(checkpointer=saver, interrupt_before=["two"])


def thread(name):
    return {"configurable": {"thread_id": name}}


with RedisSaver.from_conn_string(URL) as saver:
    saver.setup()
    # A second set-up finds the indexes.
    saver.setup()
    made = graph(saver)
    same(made.invoke({"steps": ["begin"]}, thread("a"))["steps"], ["begin", "one"])
    state = made.get_state(thread("a"))
    same(state.next, ("two",))
    same(made.invoke(None, thread("a"))["steps"], ["begin", "one", "two"])
    same(made.get_state(thread("a")).next, ())
    history = list(made.get_state_history(thread("a")))
    same([len(state.values.get("steps", [])) for state in history], [3, 2, 1, 0])
    # From an earlier checkpoint once more.
    earlier = history[1].config
    same(made.invoke(None, earlier)["steps"], ["begin", "one", "two"])
    made.update_state(thread("a"), {"steps": ["by hand"]})
    true("by hand" in made.get_state(thread("a")).values["steps"])
    same(made.invoke({"steps": ["other"]}, thread("b"))["steps"], ["other", "one"])
    same(len(list(saver.list(thread("b")))), 3)
    same(len(list(saver.list(thread("b"), limit=1))), 1)
    true(len(list(saver.list(None, filter={"source": "loop"}))) >= 2)
    saver.delete_thread("a")
    same(saver.get_tuple(thread("a")), None)
    true(saver.get_tuple(thread("b")) is not None)

with ShallowRedisSaver.from_conn_string(URL) as saver:
    saver.setup()
    made = graph(saver)
    same(made.invoke({"steps": ["begin"]}, thread("s"))["steps"], ["begin", "one"])
    same(made.invoke(None, thread("s"))["steps"], ["begin", "one", "two"])
    same(len(list(saver.list(thread("s")))), 1)


def embed(texts):
    found = []
    for text in texts:
        vector = [0.0] * 64
        for word in text.lower().split():
            vector[int(hashlib.md5(word.encode()).hexdigest(), 16) % 64] += 1.0
        found.append(vector)
    return found


with RedisStore.from_conn_string(URL) as store:
    store.setup()
    store.put(("users", "ann"), "color", {"value": "blue", "kind": "taste"})
    store.put(("users", "ann"), "food", {"value": "pasta", "kind": "taste"})
    store.put(("users", "bob"), "color", {"value": "red", "kind": "taste"})
    same(store.get(("users", "ann"), "color").value["value"], "blue")
    same(sorted(item.key for item in store.search(("users", "ann"))), ["color", "food"])
    same([item.key for item in store.search(("users", "ann"), filter={"value": "pasta"})], ["food"])
    same(sorted(store.list_namespaces(prefix=("users",))), [("users", "ann"), ("users", "bob")])
    store.put(("users", "ann"), "color", {"value": "green", "kind": "taste"})
    same(store.get(("users", "ann"), "color").value["value"], "green")
    store.delete(("users", "ann"), "food")
    same(store.get(("users", "ann"), "food"), None)

vectors = {"dims": 64, "embed": embed, "distance_type": "cosine", "fields": ["text"]}
with RedisStore.from_conn_string(URL, index=vectors) as store:
    store.setup()
    store.put(("docs",), "cats", {"text": "cats are small animals"})
    store.put(("docs",), "cars", {"text": "cars have four wheels"})
    found = store.search(("docs",), query="small cats", limit=2)
    same(found[0].key, "cats")
    true(found[0].score > found[1].score if len(found) > 1 else True)
done()
