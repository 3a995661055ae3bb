# SPDX-License-Identifier: BSD-3-Clause
"""The search commands of redis-py, in both protocols."""

import struct

import redis
from redis.commands.json.path import Path
from redis.commands.search import reducers
from redis.commands.search.aggregation import AggregateRequest, Asc, Desc
from redis.commands.search.field import GeoField, NumericField, TagField, TextField, VectorField
from redis.commands.search.index_definition import IndexDefinition, IndexType
from redis.commands.search.query import GeoFilter, NumericFilter, Query
from redis.commands.search.suggestion import Suggestion

from checks import PORT, done, same, true


def wait(index):
    while int(index.info()["indexing"]):
        pass


def hashes(client):
    client.flushall()
    index = client.ft("books")
    definition = IndexDefinition(prefix=["book:"], index_type=IndexType.HASH, language="english")
    index.create_index(
        [
            TextField("title", weight=5.0, sortable=True),
            TextField("body"),
            TagField("genre", separator=";"),
            NumericField("year", sortable=True),
            GeoField("place"),
        ],
        definition=definition,
        stopwords=["the", "of"],
    )
    client.hset("book:1", mapping={"title": "The Left Hand of Darkness", "body": "gender and snow", "genre": "scifi;classic", "year": 1969, "place": "-122.3,45.5"})
    client.hset("book:2", mapping={"title": "A Wizard of Earthsea", "body": "names and dragons", "genre": "fantasy", "year": 1968, "place": "-122.6,45.6"})
    client.hset("book:3", mapping={"title": "The Dispossessed", "body": "an ambiguous utopia", "genre": "scifi", "year": 1974})
    client.hset("other:1", mapping={"title": "The Dispossessed"})
    wait(index)
    info = index.info()
    same(int(info["num_docs"]), 3, "num_docs")
    same(info["index_name"], "books")
    found = index.search("wizards")
    same((found.total, found.docs[0].id, found.docs[0].title), (1, "book:2", "A Wizard of Earthsea"))
    same(index.search(Query("@genre:{scifi}").sort_by("year", asc=False).no_content()).docs[0].id, "book:3")
    same([doc.id for doc in index.search(Query("*").add_filter(NumericFilter("year", 1960, 1970)).sort_by("year")).docs], ["book:2", "book:1"])
    same(index.search(Query("*").add_filter(GeoFilter("place", -122.3, 45.5, 1, GeoFilter.KILOMETERS))).total, 1)
    found = index.search(Query("darkness").return_fields("title").with_scores().highlight(fields=["title"], tags=["<b>", "</b>"]))
    same(found.docs[0].title, "The Left Hand of <b>Darkness</b>")
    true(found.docs[0].score > 0)
    same(index.search(Query("snow").summarize(fields=["body"], context_len=2)).total, 1)
    same(index.search(Query("*").paging(1, 1)).total, 3)
    same(len(index.search(Query("*").paging(1, 1)).docs), 1)
    same(index.search(Query("\"left hand\"").verbatim()).total, 1)
    same(index.search(Query("@title:dis*").limit_fields("title")).total, 1)
    same(index.search("@year:[$a $b]", query_params={"a": 1970, "b": 1980}).total, 1)
    same(index.search(Query("left -snow")).total, 0)
    same(index.search(Query("(left|wizard) ~dragons")).total, 2)
    true("INTERSECT" in index.explain("left hand"))
    true(len(client.execute_command("FT.EXPLAINCLI", "books", "left hand")) > 3)
    request = AggregateRequest("*").group_by("@genre", reducers.count().alias("n"), reducers.avg("@year").alias("mean")).sort_by(Desc("@n"), Asc("@genre"))
    rows = index.aggregate(request).rows
    same(len(rows), 3)
    request = AggregateRequest("*").load("title").apply(shout="upper(@title)").filter("@year>1970").limit(0, 5)
    true("THE DISPOSSESSED" in str(index.aggregate(request).rows))
    request = AggregateRequest("*").load("title").cursor(count=2)
    answer = index.aggregate(request)
    same(len(answer.rows), 2)
    same(len(index.aggregate(answer.cursor).rows), 1)
    profiled, profile = index.profile(Query("left").no_content())
    same(profiled.total, 1)
    true("TEXT" in str(profile.info if hasattr(profile, "info") else profile))
    profiled, profile = index.profile(AggregateRequest("*").group_by([], reducers.count().alias("n")))
    true("Grouper" in str(profile.info if hasattr(profile, "info") else profile))
    same(sorted(index.tagvals("genre")), ["classic", "fantasy", "scifi"])
    index.alter_schema_add(TagField("series"))
    client.hset("book:2", "series", "earthsea")
    same(index.search("@series:{earthsea}").total, 1)
    index.aliasadd("library")
    same(client.ft("library").search("*").total, 3)
    index.aliasupdate("library")
    index.aliasdel("library")
    index.synupdate("g1", False, "wizard", "magician")
    same(index.search("magician").total, 1)
    same(index.syndump()["wizard"], ["g1"])
    same(index.dict_add("words", "dragom", "dragon"), 2)
    same(sorted(index.dict_dump("words")), ["dragom", "dragon"])
    same(index.dict_del("words", "dragom"), 1)
    true("dragons" in str(index.spellcheck("dragans")))
    same(index.config_get("TIMEOUT")["TIMEOUT"], "500")
    true(index.config_set("TIMEOUT", "600"))
    true(index.config_set("TIMEOUT", "500"))
    index.dropindex(delete_documents=True)
    same((client.exists("book:1"), client.exists("other:1")), (0, 1))
    try:
        index.info()
        raise SystemExit("a dropped index has no information")
    except redis.ResponseError as wrong:
        true("nknown index name" in str(wrong).replace("no such index", "nknown index name"), wrong)


def suggestions(client):
    index = client.ft()
    same(index.sugadd("words", Suggestion("hello", 1.0, payload="p"), Suggestion("help", 2.0), Suggestion("other")), 3)
    same([one.string for one in index.sugget("words", "hel")], ["help", "hello"])
    found = index.sugget("words", "helo", fuzzy=True, with_scores=True, with_payloads=True, num=1)
    true(found and found[0].score > 0)
    same(index.sugget("words", "hello", with_payloads=True)[0].payload, "p")
    same((index.suglen("words"), index.sugdel("words", "other"), index.suglen("words")), (3, 1, 2))


def vectors(client):
    for algorithm, attributes in [("FLAT", {}), ("HNSW", {"M": 8, "EF_CONSTRUCTION": 50})]:
        client.flushall()
        index = client.ft("vectors")
        index.create_index(
            [TagField("kind"), VectorField("v", algorithm, {"TYPE": "FLOAT32", "DIM": 2, "DISTANCE_METRIC": "L2", **attributes})],
            definition=IndexDefinition(prefix=["v:"]),
        )
        for number in range(10):
            client.hset(f"v:{number}", mapping={"kind": "even" if number % 2 == 0 else "odd", "v": struct.pack("2f", number, 0)})
        wanted = {"b": struct.pack("2f", 3.1, 0)}
        query = Query("*=>[KNN 3 @v $b AS distance]").sort_by("distance").return_fields("distance").dialect(2)
        same([doc.id for doc in index.search(query, wanted).docs], ["v:3", "v:4", "v:2"])
        query = Query("@kind:{even}=>[KNN 2 @v $b AS distance]").sort_by("distance").return_fields("distance").dialect(2)
        found = index.search(query, wanted)
        same([doc.id for doc in found.docs], ["v:4", "v:2"])
        true(abs(float(found.docs[0].distance) - 0.81) < 1e-5)
        query = Query("@v:[VECTOR_RANGE 1.5 $b]=>{$yield_distance_as: distance}").sort_by("distance").dialect(2)
        same(index.search(query, wanted).total, 3)


def documents(client):
    client.flushall()
    index = client.ft("people")
    index.create_index(
        [TextField("$.name", as_name="name"), NumericField("$.age", as_name="age"), TagField("$.tags[*]", as_name="tags")],
        definition=IndexDefinition(prefix=["person:"], index_type=IndexType.JSON),
    )
    client.json().set("person:1", Path.root_path(), {"name": "Ann Lee", "age": 30, "tags": ["a", "b"]})
    client.json().set("person:2", Path.root_path(), {"name": "Bob Lee", "age": 40, "tags": ["b"]})
    same(index.search("lee").total, 2)
    same(index.search("@tags:{a} @age:[20 35]").docs[0].id, "person:1")
    same(index.search(Query("ann").return_field("$.age", as_field="years")).docs[0].years, "30")
    client.json().numincrby("person:1", "$.age", 20)
    same(index.search("@age:[45 60]").total, 1)
    client.delete("person:1")
    same(index.search("lee").total, 1)


def resp3(client):
    """Replies come as they are in RESP3."""
    client.flushall()
    index = client.ft("notes")
    index.create_index([TextField("t"), NumericField("n", sortable=True)], definition=IndexDefinition(prefix=["note:"]))
    client.hset("note:1", mapping={"t": "hello world", "n": 1})
    found = index.search(Query("hello").with_scores().dialect(2))
    same((found["total_results"], found["results"][0]["id"]), (1, "note:1"))
    true(found["results"][0]["score"] > 0)
    same(found["results"][0]["extra_attributes"], {"t": "hello world", "n": "1"})
    same(index.info()["num_docs"], 1)
    rows = index.aggregate(AggregateRequest("*").group_by("@n", reducers.count().alias("c")))["results"]
    same(rows[0]["extra_attributes"], {"n": "1", "c": "1"})
    profile = index.profile(Query("hello"))
    true("Iterators profile" in str(profile if isinstance(profile, dict) else profile.__dict__))
    same(client.ft().sugadd("words", Suggestion("hello", 2.0, payload="p")), 1)
    found = client.ft().sugget("words", "hel", with_scores=True, with_payloads=True)[0]
    same((found.string, found.payload), ("hello", "p"))


connection = redis.Redis(port=PORT, protocol=2, decode_responses=True)
for part in (hashes, suggestions, vectors, documents):
    part(connection)
resp3(redis.Redis(port=PORT, protocol=3, decode_responses=True))
done()
