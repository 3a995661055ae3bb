# SPDX-License-Identifier: BSD-3-Clause
"""RedisVL: an index by schema, queries of all kinds, a semantic cache, a message history, a router.

Embeddings are made here, of the words of a text: no model is loaded."""

import hashlib

import numpy as np
from redisvl.extensions.cache.llm import SemanticCache
from redisvl.extensions.message_history import MessageHistory, SemanticMessageHistory
from redisvl.extensions.router import Route, SemanticRouter
from redisvl.index import SearchIndex
from redisvl.query import CountQuery, FilterQuery, RangeQuery, TextQuery, VectorQuery
from redisvl.query.filter import Geo, GeoRadius, Num, Tag, Text
from redisvl.query.hybrid import HybridQuery
from redisvl.utils.vectorize import CustomTextVectorizer

from checks import URL, done, same, true

DIMENSIONS = 256


def embed(text):
    vector = np.zeros(DIMENSIONS, dtype=np.float32)
    for word in text.lower().split():
        vector[int(hashlib.md5(word.encode()).hexdigest(), 16) % DIMENSIONS] += 1
    norm = np.linalg.norm(vector)
    return (vector / norm if norm else vector).tolist()


vectorizer = CustomTextVectorizer(embed=embed, embed_many=lambda texts: [embed(text) for text in texts])


def schema(name, storage, algorithm):
    return {
        "index": {"name": name, "prefix": name, "storage_type": storage},
        "fields": [
            {"name": "user", "type": "tag"},
            {"name": "job", "type": "text"},
            {"name": "age", "type": "numeric"},
            {"name": "office", "type": "geo"},
            {"name": "embedding", "type": "vector", "attrs": {"dims": DIMENSIONS, "distance_metric": "cosine", "algorithm": algorithm, "datatype": "float32"}},
        ],
    }


PEOPLE = [
    ("ann", "software engineer", 30, "-122.41,37.77"),
    ("bob", "doctor of medicine", 45, "-122.45,37.80"),
    ("eve", "software tester", 25, "2.35,48.85"),
]


def queries(storage, algorithm):
    index = SearchIndex.from_dict(schema(f"people-{storage}-{algorithm}", storage, algorithm), redis_url=URL)
    index.create(overwrite=True, drop=True)
    true(index.exists())
    true(index.name in index.listall())
    rows = []
    for user, job, age, office in PEOPLE:
        vector = embed(job)
        rows.append({"user": user, "job": job, "age": age, "office": office, "embedding": np.array(vector, dtype=np.float32).tobytes() if storage == "hash" else vector})
    same(len(index.load(rows, id_field="user")), 3)
    same(int(index.info()["num_docs"]), 3)
    wanted = embed("software engineer")
    query = VectorQuery(wanted, "embedding", return_fields=["user", "job", "age"], num_results=2)
    found = index.query(query)
    same([row["user"] for row in found], ["ann", "eve"])
    true(float(found[0]["vector_distance"]) < 1e-5)
    query.set_filter(Tag("user") == "bob")
    same([row["user"] for row in index.query(query)], ["bob"])
    query.set_filter((Num("age") > 26) & (Tag("user") != "bob"))
    same([row["user"] for row in index.query(query)], ["ann"])
    query.set_filter(Text("job") % "test*")
    same([row["user"] for row in index.query(query)], ["eve"])
    query.set_filter(Geo("office") == GeoRadius(-122.41, 37.77, 10, "km"))
    same(sorted(row["user"] for row in index.query(query)), ["ann", "bob"])
    found = index.query(RangeQuery(wanted, "embedding", return_fields=["user"], distance_threshold=0.6))
    same([row["user"] for row in found], ["ann", "eve"])
    same(index.query(CountQuery(Num("age") >= 30)), 2)
    fused = HybridQuery("software doctor", "job", wanted, "embedding", return_fields=["user"], num_results=2, stopwords=None, combination_method="LINEAR", linear_alpha=0.1, yield_text_score_as="words", yield_vsim_score_as="near", yield_combined_score_as="score")
    found = index.query(fused)
    same([row["user"] for row in found], ["ann", "eve"])
    true(abs(float(found[0]["score"]) - 0.1 * float(found[0]["words"]) - 0.9 * float(found[0]["near"])) < 1e-6)
    found = index.query(FilterQuery(return_fields=["user", "age"], filter_expression=Num("age") < 40, sort_by="age"))
    same([row["user"] for row in found], ["eve", "ann"])
    found = index.query(TextQuery("software", "job", return_fields=["user"], stopwords=None))
    same(sorted(row["user"] for row in found), ["ann", "eve"])
    pages = list(index.paginate(FilterQuery(return_fields=["user"], filter_expression=Tag("user") == ["ann", "bob", "eve"]), page_size=2))
    same([len(page) for page in pages], [2, 1])
    true(index.fetch("ann")["job"] == "software engineer")
    same(index.clear(), 3)
    index.delete(drop=True)
    true(not index.exists())


def cache():
    known = SemanticCache(name="llmcache", redis_url=URL, vectorizer=vectorizer, distance_threshold=0.2, overwrite=True)
    same(known.check(prompt="what is the capital of france"), [])
    known.store(prompt="what is the capital of france", response="Paris", metadata={"city": "Paris"})
    same(known.check(prompt="what is the capital of france")[0]["response"], "Paris")
    same(known.check(prompt="who won the game"), [])
    known.set_threshold(0.4)
    same(known.check(prompt="what is the capital city of france")[0]["response"], "Paris")
    known.clear()
    same(known.check(prompt="what is the capital of france"), [])
    known.delete()


def histories():
    history = MessageHistory(name="plain", redis_url=URL)
    history.add_messages([{"role": "user", "content": "hello"}, {"role": "llm", "content": "hi there"}])
    history.store("how are you", "fine")
    same([message["content"] for message in history.get_recent(top_k=3)], ["hi there", "how are you", "fine"])
    history.delete()
    history = SemanticMessageHistory(name="semantic", redis_url=URL, vectorizer=vectorizer, distance_threshold=0.5, overwrite=True)
    history.store("my cat is black", "nice cat")
    history.store("the weather is bad", "take an umbrella")
    true("my cat is black" in [message["content"] for message in history.get_relevant("my black cat")])
    history.delete()


def router():
    routes = [
        Route(name="weather", references=["how is the weather", "will it rain today"], distance_threshold=0.5),
        Route(name="food", references=["what is for dinner", "cook me a meal"], distance_threshold=0.5),
    ]
    routes = SemanticRouter(name="routes", routes=routes, vectorizer=vectorizer, redis_url=URL, overwrite=True)
    same(routes("will it rain").name, "weather")
    same(routes("cook a meal").name, "food")
    same(routes("zzz yyy xxx").name, None)
    routes.delete()


for kind in ("hash", "json"):
    for way in ("flat", "hnsw"):
        queries(kind, way)
cache()
histories()
router()
done()
