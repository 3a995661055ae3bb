#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Random schemas, documents and queries, to RediSearch and to the crate `search` side by side.

    differential.py PORT PROGRAM [QUERIES [SEED]]

PORT is where a server with RediSearch listens whose data may be deleted; PROGRAM is
`search_lines`, built by `cargo build --release -p braid-search --example search_lines`. Needs
redis-py. Equal are: the documents found, their order, and their scores within 1e-6; of queries in
whose scores the two differ knowingly (see `Query.scored`), the documents only. Each difference is
printed with what it takes to see it again; the exit status tells whether there was one.
"""

import json
import math
import queue
import random
import subprocess
import sys
import threading
import time

import redis

WORDS = (
    "run runs running runner walk walked walking apple apples banana cherry cherries delta deltas help helps "
    "helping helped helper hello hell helmet world worlds wonder wonders wonderful alpha beta gamma cat cats "
    "category caterpillar dog dogs house houses housing query queries quick quickly search searching searched "
    "time times timer index indexes indexing tree trees green red blue big bigger the of and not in x1 y2 2024 42"
).split()
STOP = {"the", "of", "and", "not", "in"}
# No two have one stem.
DIFFERENT = ["run", "walking", "apples", "cherry", "delta", "help", "world", "cats", "house", "trees", "red"]
TAGS = ["red", "green", "dark green", "Blue", "x-1", "a.b", "north", "northern", "south", "big tag"]
DISTANCE = {"TFIDF", "TFIDF.DOCNORM", "BM25"}
LENGTH = {"BM25STD", "BM25"}
SCORERS = ["BM25STD", "TFIDF", "TFIDF.DOCNORM", "BM25", "DISMAX", "DOCSCORE"]


class Server:
    """RediSearch."""

    def __init__(self, port):
        self.redis = redis.Redis(port=port, protocol=2)
        self.redis.response_callbacks.clear()
        self.command = self.redis.execute_command

    def create(self, fields):
        self.command("FLUSHALL")
        for name in self.command("FT._LIST"):
            self.command("FT.DROPINDEX", name)
        self.command("FT.CONFIG", "SET", "FORK_GC_CLEAN_THRESHOLD", "0")
        arguments = []
        for field in fields:
            arguments += [field["name"], field["type"].upper()]
            if field.get("weight", 1) != 1:
                arguments += ["WEIGHT", field["weight"]]
            arguments += ["NOSTEM"] if field.get("nostem") else []
            arguments += ["SEPARATOR", field["separator"]] if field.get("separator") else []
            arguments += ["CASESENSITIVE"] if field.get("casesensitive") else []
            arguments += ["SORTABLE"] if field.get("sortable") else []
        self.command("FT.CREATE", "i", "SCHEMA", *arguments)

    def settle(self):
        """Waits until nothing of removed documents is left."""
        self.command("FT.DEBUG", "GC_FORCEINVOKE", "i")

    def search(self, query):
        arguments = ["FT.SEARCH", "i", query.text, "NOCONTENT", "DIALECT", "2", "LIMIT", query.offset, query.count]
        if query.sortby:
            arguments += ["SORTBY", query.sortby, "DESC" if query.descending else "ASC"]
        else:
            arguments += ["WITHSCORES", "SCORER", query.scorer]
        arguments += ["VERBATIM"] if query.verbatim else []
        arguments += ["SLOP", query.slop] if query.slop is not None else []
        arguments += ["INORDER"] if query.inorder else []
        return arguments

    def searches(self, queries):
        pipeline = self.redis.pipeline(transaction=False)
        pipeline.response_callbacks.clear()
        for query in queries:
            pipeline.execute_command(*self.search(query))
        answers = []
        for query, reply in zip(queries, pipeline.execute(raise_on_error=False)):
            if isinstance(reply, Exception):
                answers.append({"error": str(reply)})
                continue
            rest = [item.decode() if isinstance(item, bytes) else item for item in reply[1:]]
            hits = [[key, 0.0] for key in rest] if query.sortby else [
                [key, float(score)] for key, score in zip(rest[::2], rest[1::2])
            ]
            answers.append({"total": reply[0], "hits": hits})
        return answers


class Crate:
    """The program that drives the crate."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.waiting = 0
        # Read at once: it waits while nobody takes its answers.
        self.answers = queue.SimpleQueue()
        threading.Thread(target=lambda: [self.answers.put(line) for line in self.process.stdout], daemon=True).start()

    def send(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.waiting += 1

    def flush(self):
        self.process.stdin.flush()
        answers = [json.loads(self.answers.get()) for _ in range(self.waiting)]
        self.waiting = 0
        return answers

    def searches(self, queries):
        for query in queries:
            self.send(op="search", query=query.text, scorer=query.scorer, sortby=query.sortby,
                      descending=query.descending, offset=query.offset, count=query.count,
                      verbatim=query.verbatim, slop=query.slop, inorder=query.inorder)
        return self.flush()


class Query:
    """A query, and what can be compared."""

    def __init__(self, random, fields, changed):
        self.random = random
        self.fields = fields
        self.changed = changed
        # Whether both give the same scores. Not if a form of a word is searched: which of its words
        # counts is not defined.
        self.scored = True
        self.depth = 0
        self.scorer = random.choice(SCORERS)
        self.sortby = None
        self.descending = random.random() < 0.5
        self.verbatim = random.random() < 0.4
        self.slop = random.choice([0, 1, 3]) if random.random() < 0.1 else None
        # In order but however far apart, its reordering of rare words first is seen.
        self.inorder = self.slop is not None and random.random() < 0.5
        self.plain_words = True
        if self.slop is not None:
            # With other things than words, theirs is about the places that those do not have.
            self.text = " ".join(random.sample(DIFFERENT, random.randrange(2, 5)))
            # Of a word and its stem it looks at the places of one only.
            self.verbatim = True
        else:
            self.text = self.union()
        words = self.text.lower().split()
        if self.scorer in DISTANCE and (not self.plain_words or "|" in self.text or len(set(words)) < len(words)):
            # Alternatives, tags, `-`, `~` and repeated words have places of their own in their measure
            # of distance.
            self.scored = False
        if self.scorer in DISTANCE and not self.verbatim:
            # Of a word and its stem at one place theirs does not always find the smallest distance.
            self.scored = False
        if self.scorer == "DISMAX" and "~" in self.text:
            self.scored = False
        if self.scorer in LENGTH and changed:
            # Documents that were replaced or removed still count in the average length there.
            self.scored = False
        if random.random() < 0.25:
            self.sortby = random.choice([field["name"] for field in fields if field.get("sortable")])
        self.offset, self.count = (0, 1000) if random.random() < 0.8 else (random.randrange(5), random.randrange(9))

    def word(self, stop=False):
        word = self.random.choice([word for word in WORDS if stop or word not in STOP])
        return word.upper() if self.random.random() < 0.05 else word

    def names(self, kind):
        return [field["name"] for field in self.fields if field["type"] == kind]

    def union(self):
        parts = [self.both() for _ in range(self.random.choice([1, 1, 1, 2, 3]))]
        if len(parts) > 1 and any("@" in part for part in parts):
            # Alternatives of words alone bind more tightly there.
            parts = [f"({part})" for part in parts]
        return self.random.choice(["|", " | "]).join(parts)

    def both(self):
        # Words before groups: a group at the beginning is melted into what follows it.
        parts = [self.unit() for _ in range(self.random.choice([1, 1, 2, 2, 3]))]
        # A form of a word or a number directly after a sign or a field's name belongs to what is before it.
        parts.sort(key=lambda part: "@(-~".find(part[0]))
        if len(parts) > 1 and (not self.verbatim or any("|" in part for part in parts)):
            # Alternatives (a word and its stem, tags) that a conjunction skips in do not all count there.
            self.scored = False
        if len(parts) > 1 and self.random.random() < 0.1:
            # Stop words alone are nothing.
            parts.insert(1, self.random.choice(sorted(STOP)))
        return " ".join(parts)

    def unit(self):
        pick = self.random.random()
        if pick < 0.45:
            return self.word()
        self.plain_words = False
        if pick < 0.53 and self.depth < 2:
            self.depth += 1
            inner = self.union()
            self.depth -= 1
            return f"({inner})" + self.attributes()
        if pick < 0.60:
            # A word that is asked for twice need not be there twice there.
            return '"' + " ".join(self.random.sample(sorted(set(WORDS)), self.random.choice([2, 2, 3]))) + '"'
        if pick < 0.67:
            return f"@{self.random.choice(self.names('numeric'))}:" + self.range()
        if pick < 0.76:
            return self.tag()
        if pick < 0.80:
            name = self.random.choice(self.names("text"))
            if self.random.random() < 0.6:
                return f"@{name}:{self.word()}"
            self.scored = self.scored and self.verbatim
            return f"@{name}:({self.word()} {self.word()})"
        if pick < 0.84:
            # Within a group a conjunction that ends with one is skipped in as well.
            return "-" + self.plain() if self.depth == 0 else self.word()
        if pick < 0.88:
            return "~" + self.plain()
        if pick < 0.97:
            if self.changed:
                # When documents were removed, its cleaning forgets words that others still have.
                return self.word()
            self.scored = False
            return self.form()
        return "@l:[{} {} {} km]".format(self.random.randrange(-5, 5), self.random.randrange(-5, 5), self.random.choice([1, 100, 300, 900]))

    def plain(self):
        word = self.word()
        return word if self.random.random() < 0.7 and not word.isdigit() else self.tag()

    def form(self):
        word = self.random.choice([word for word in WORDS if word not in STOP and len(word) > 3])
        cut = word[: self.random.randrange(2, len(word))]
        # Other forms than prefixes are looked for among stems too there.
        stemmed = not all(field.get("nostem") for field in self.fields if field["type"] == "text")
        pick = 0 if stemmed else self.random.random()
        if pick < 0.4:
            return cut + "*"
        if pick < 0.5:
            return "*" + word[-2:]
        if pick < 0.6:
            return "*" + word[1:3] + "*"
        if pick < 0.7:
            return "w'" + cut + "?*'"
        # Two changes of two letters are more than there are: theirs finds other words then.
        return f"%{word}%" if self.random.random() < 0.7 or len(cut) < 4 else f"%%{cut}%%"

    def range(self):
        low, high = sorted(self.random.choice([-3, 0, 1, 2.5, 7, 10, 50]) for _ in range(2))
        low = self.random.choice([low, low, f"({low}", "-inf"])
        high = self.random.choice([high, high, f"({high}", "+inf"])
        return f"[{low} {high}]"

    def tag(self):
        name = self.random.choice(self.names("tag"))
        tags = self.random.sample(TAGS, self.random.choice([1, 1, 2, 3]))
        escaped = [tag.replace("-", "\\-").replace(".", "\\.").replace(" ", self.random.choice([" ", "\\ "])) for tag in tags]
        if self.random.random() < 0.1 and not self.changed:
            self.scored = False
            escaped[0] = self.random.choice(["nor*", "gr*", "*en", "*or*", "w'?o*'"])
        return "@" + name + ":{" + self.random.choice(["|", " | "]).join(escaped) + "}"

    def attributes(self):
        pick = self.random.random()
        if pick < 0.1:
            # Weights of single words are lost there with BM25STD.
            self.scored = self.scored and False
            return "=>{$weight: " + self.random.choice(["2", "0.5"]) + "}"
        return ""

    def __str__(self):
        extra = {name: value for name, value in vars(self).items() if name not in ("random", "fields", "text", "depth", "plain_words", "changed")}
        return f"{self.text!r} {extra}"


def schema(random):
    nostem = random.random() < 0.4
    fields = [
        {"name": "t", "type": "text", "nostem": nostem},
        {"name": "u", "type": "text", "nostem": nostem, "weight": random.choice([1, 2, 3])},
        {"name": "s", "type": "text", "sortable": True, "nostem": nostem or random.random() < 0.3},
        {"name": "g", "type": "tag"},
        {"name": "k", "type": "tag", "separator": ";", "casesensitive": random.random() < 0.5},
        {"name": "n", "type": "numeric", "sortable": True},
        {"name": "m", "type": "numeric", "sortable": random.random() < 0.5},
        {"name": "l", "type": "geo"},
    ]
    return fields


def document(random):
    text = lambda most: " ".join(random.choice(WORDS) + random.choice(["", "", "", ",", "."]) for _ in range(random.randrange(1, most)))
    # Without a word TFIDF divides by 0 there.
    values = {"t": "text " + text(14)}
    for name, make in [
        ("u", lambda: text(8)),
        ("s", lambda: text(4)),
        ("g", lambda: ",".join(random.sample(TAGS, random.randrange(1, 4)))),
        ("k", lambda: random.choice(["; ", ";"]).join(random.sample(TAGS, random.randrange(1, 3)))),
        ("n", lambda: str(random.choice([-3, 0, 1, 2, 2.5, 7, 10, 50, random.randrange(100)]))),
        ("m", lambda: str(random.randrange(20))),
        ("l", lambda: f"{random.uniform(-5, 5):.3f},{random.uniform(-5, 5):.3f}"),
    ]:
        if random.random() < 0.8:
            values[name] = make()
    return values


def differ(query, theirs, ours):
    """What differs, or nothing."""
    if "error" in theirs:
        # Their grammar refuses some queries that their documentation has.
        return None
    if "error" in ours:
        return "error"
    if theirs["total"] != ours["total"]:
        return "total"
    by_order = query.scored or query.sortby
    if not by_order and query.count < 1000:
        return None
    keys = [[hit[0] for hit in answer["hits"]] for answer in (theirs, ours)]
    if not by_order:
        return None if sorted(keys[0]) == sorted(keys[1]) else "documents"
    if query.sortby:
        return None if keys[0] == keys[1] else "order"
    theirs_by_key, ours_by_key = dict(map(tuple, theirs["hits"])), dict(map(tuple, ours["hits"]))
    scores = [[hit[1] for hit in answer["hits"]] for answer in (theirs, ours)]
    if len(keys[0]) != len(keys[1]):
        return "documents"
    for key in theirs_by_key.keys() & ours_by_key.keys():
        one, other = theirs_by_key[key], ours_by_key[key]
        if not math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-6):
            return f"score of {key}: {one} {other}"
    for at in range(len(keys[0])):
        # Scores that are equal but for their last digits may change places.
        if keys[0][at] != keys[1][at] and not math.isclose(scores[0][at], scores[1][at], rel_tol=1e-9, abs_tol=1e-9):
            return "order"
        if keys[0][at] != keys[1][at] and scores[0].count(scores[0][at]) == scores[1].count(scores[1][at]):
            return "order of equals"
    return None


def main():
    port, program = int(sys.argv[1]), sys.argv[2]
    queries = int(sys.argv[3]) if len(sys.argv) > 3 else 2000
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else int(time.time())
    server, crate = Server(port), Crate(program)
    done, differences, compared = 0, 0, {"scores": 0, "order": 0, "documents": 0, "refused there": 0}
    while done < queries:
        rng = random.Random(seed)
        fields = schema(rng)
        server.create(fields)
        crate.send(op="create", fields=fields, parts=rng.choice([1, 3, 16]))
        changed = rng.random() < 0.5
        changes = server.redis.pipeline(transaction=False)
        keys = [f"d{n}" for n in range(rng.choice([5, 40, 300]))]
        for key in (rng.choice(keys) for _ in range(len(keys) * 2)) if changed else keys:
            changes.delete(key)
            crate.send(op="del", key=key)
            if rng.random() < 0.85:
                values = document(rng)
                changes.hset(key, mapping=values)
                crate.send(op="put", key=key, values=values)
        changes.execute()
        crate.flush()
        server.settle()
        asked = [Query(rng, fields, changed) for _ in range(500)]
        for query, theirs, ours in zip(asked, server.searches(asked), crate.searches(asked)):
            kind = "refused there" if "error" in theirs else "order" if query.sortby else "scores" if query.scored else "documents"
            compared[kind] += 1
            if found := differ(query, theirs, ours):
                differences += 1
                if differences <= 20:
                    print(f"seed {seed}: {found}: {query}\n  theirs {str(theirs)[:400]}\n  ours   {str(ours)[:400]}")
        done += len(asked)
        seed += 1
    print(f"{done} queries, {differences} differences, compared by {compared}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
