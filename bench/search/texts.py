# SPDX-License-Identifier: BSD-3-Clause
"""What the benchmarks of search index and ask for: words with Zipf's distribution, and forms of queries."""

LETTERS = "etaoinshrdlucmfwypvbgk"
QUERIES = [
    ("one word", lambda word, rng: word()),
    ("two words", lambda word, rng: f"{word()} {word()}"),
    ("either word", lambda word, rng: f"{word()}|{word()}"),
    ("word and range", lambda word, rng: f"{word()} @n:[{(low := rng.randrange(900000))} {low + 50000}]"),
    ("range", lambda word, rng: f"@n:[{(low := rng.randrange(900000))} {low + 5000}]"),
    ("tag and word", lambda word, rng: "@g:{tag%d} %s" % (rng.randrange(100), word())),
    ("unique tag", lambda word, rng: "@id:{id%d}" % rng.randrange(100000)),
    ("prefix", lambda word, rng: word()[:4] + "*"),
    ("phrase", lambda word, rng: f'"{word()} {word()}"'),
]


def words(rng, count):
    """So many words, drawn by `rng`, from a vocabulary that it draws first."""
    vocabulary = ["".join(rng.choices(LETTERS, k=rng.randrange(3, 10))) + rng.choice(["", "", "s", "ing", "ed"])
                  for _ in range(50000)]
    weights = [1 / (rank + 5) for rank in range(len(vocabulary))]
    return iter(rng.choices(vocabulary, weights, k=count))


def queries(rng, count, sample, without=()):
    """So many texts of each form, by its name. `sample`: the words of some documents."""
    word = lambda: rng.choice(rng.choice(sample))
    return {name: [form(word, rng) for _ in range(count)] for name, form in QUERIES if name not in without}
