# SPDX-License-Identifier: BSD-3-Clause
"""LangChain on Redis: a vector store, caches of answers, a chat history."""

import hashlib

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import Generation
from langchain_redis import RedisCache, RedisChatMessageHistory, RedisConfig, RedisSemanticCache, RedisVectorStore
from redisvl.query.filter import Num, Tag

from checks import URL as SERVER
from checks import done, same, true

# The library reads FT.INFO's reply of RESP2; redis-py 8 begins with RESP3.
URL = SERVER + "?protocol=2"


class Words(Embeddings):
    """A vector of the words of a text: no model is loaded."""

    def embed_query(self, text):
        vector = [0.0] * 256
        for word in text.lower().split():
            vector[int(hashlib.md5(word.encode()).hexdigest(), 16) % 256] += 1.0
        return vector

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


def vector_store(storage):
    config = RedisConfig(
        index_name=f"documents-{storage}",
        redis_url=URL,
        storage_type=storage,
        metadata_schema=[{"name": "kind", "type": "tag"}, {"name": "year", "type": "numeric"}],
    )
    store = RedisVectorStore(Words(), config=config)
    documents = [
        Document(page_content="the cat sat on the mat", metadata={"kind": "pet", "year": 2001}),
        Document(page_content="a dog barks at the moon", metadata={"kind": "pet", "year": 2010}),
        Document(page_content="stocks fell on monday", metadata={"kind": "news", "year": 2020}),
    ]
    keys = store.add_documents(documents)
    same(len(keys), 3)
    found = store.similarity_search("cat on mat", k=1)
    same((found[0].page_content, found[0].metadata["kind"]), ("the cat sat on the mat", "pet"))
    found = store.similarity_search("on monday", k=3, filter=Tag("kind") == "pet")
    same(sorted(one.metadata["kind"] for one in found), ["pet", "pet"])
    found = store.similarity_search_with_score("dog moon", k=2, filter=Num("year") > 2005)
    same(found[0][0].page_content, "a dog barks at the moon")
    true(found[0][1] < found[1][1])
    found = store.max_marginal_relevance_search("cat dog", k=2, fetch_k=3)
    same(len(found), 2)
    retriever = store.as_retriever(search_type="similarity", search_kwargs={"k": 1})
    same(retriever.invoke("stocks monday")[0].metadata["kind"], "news")
    same(len(store.get_by_ids([key.split(":")[-1] for key in keys[:2]])), 2)
    true(store.delete([keys[0].split(":")[-1]]) or store.delete([keys[0]]))
    same([one.page_content for one in store.similarity_search("cat mat", k=3) if "cat" in one.page_content], [])
    again = RedisVectorStore.from_existing_index(index_name=f"documents-{storage}", embedding=Words(), redis_url=URL)
    same(again.similarity_search("stocks", k=1)[0].page_content, "stocks fell on monday")
    store.index.delete(drop=True)


def caches():
    cache = RedisCache(redis_url=URL, ttl=60)
    same(cache.lookup("question", "model"), None)
    cache.update("question", "model", [Generation(text="answer")])
    same(cache.lookup("question", "model")[0].text, "answer")
    cache.clear()
    same(cache.lookup("question", "model"), None)
    cache = RedisSemanticCache(redis_url=URL, embeddings=Words(), distance_threshold=0.2, name="semantic")
    cache.update("what is the capital of france", "model", [Generation(text="Paris")])
    same(cache.lookup("what is the capital of france", "model")[0].text, "Paris")
    same(cache.lookup("who won the game yesterday", "model"), None)
    same(cache.lookup("what is the capital of france", "other model"), None)
    cache.clear()


def history():
    messages = RedisChatMessageHistory(session_id="one", redis_url=URL)
    messages.add_message(HumanMessage(content="hello"))
    messages.add_message(AIMessage(content="hi, how can I help"))
    RedisChatMessageHistory(session_id="two", redis_url=URL).add_message(HumanMessage(content="other"))
    same([one.content for one in messages.messages], ["hello", "hi, how can I help"])
    same(len(messages), 2)
    same([one["content"] for one in messages.search_messages("help")], ["hi, how can I help"])
    messages.clear()
    same(messages.messages, [])


for storage in ("hash", "json"):
    vector_store(storage)
caches()
history()
done()
