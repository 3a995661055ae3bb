# SPDX-License-Identifier: BSD-3-Clause
"""Redis OM for Python: models as JSON and as hashes, found by their fields."""

import datetime
import os

from checks import PORT, done, same

os.environ["REDIS_OM_URL"] = f"redis://127.0.0.1:{PORT}"

from redis_om import EmbeddedJsonModel, Field, HashModel, JsonModel, Migrator, NotFoundError  # noqa: E402


class Address(EmbeddedJsonModel, index=True):
    city: str = Field(index=True)
    street: str


class Person(JsonModel, index=True):
    name: str = Field(index=True, full_text_search=True, sortable=True)
    email: str = Field(index=True)
    age: int = Field(index=True, sortable=True)
    joined: datetime.date
    tags: list[str] = Field(index=True, default=[])
    address: Address

    class Meta:
        global_key_prefix = "om"


class Customer(HashModel, index=True):
    name: str = Field(index=True)
    spent: float = Field(index=True, sortable=True)
    note: str = Field(index=True, full_text_search=True, default="")

    class Meta:
        global_key_prefix = "om"


Migrator().run()
today = datetime.date(2026, 1, 1)
ann = Person(name="Ann Lee", email="ann@example.com", age=30, joined=today, tags=["a", "b"], address=Address(city="Oslo", street="One")).save()
bob = Person(name="Bob Lee", email="bob@example.com", age=40, joined=today, tags=["b"], address=Address(city="Rome", street="Two")).save()
eve = Person(name="Eve Poe", email="eve@example.com", age=50, joined=today, address=Address(city="Oslo", street="Three")).save()
same(Person.get(ann.pk).name, "Ann Lee")


def names(query):
    return sorted(person.name for person in query.all())


same(names(Person.find(Person.email == "ann@example.com")), ["Ann Lee"])
same(names(Person.find(Person.age > 35)), ["Bob Lee", "Eve Poe"])
same(names(Person.find((Person.age >= 30) & (Person.age < 50))), ["Ann Lee", "Bob Lee"])
same(names(Person.find((Person.email == "ann@example.com") | (Person.age == 50))), ["Ann Lee", "Eve Poe"])
same(names(Person.find(~(Person.email == "ann@example.com"))), ["Bob Lee", "Eve Poe"])
same(names(Person.find(Person.email != "bob@example.com")), ["Ann Lee", "Eve Poe"])
same(names(Person.find(Person.name % "lee")), ["Ann Lee", "Bob Lee"])
same(names(Person.find(Person.tags << "a")), ["Ann Lee"])
same(names(Person.find(Person.email << ["bob@example.com", "eve@example.com"])), ["Bob Lee", "Eve Poe"])
same(names(Person.find(Person.address.city == "Oslo")), ["Ann Lee", "Eve Poe"])
same([person.age for person in Person.find().sort_by("-age").all()], [50, 40, 30])
same(Person.find(Person.age > 35).sort_by("age").first().name, "Bob Lee")
same(Person.find(Person.age > 0).count(), 3)
same([person.age for person in Person.find(Person.age > 0).sort_by("age").page(1, 1)], [40])
bob.update(age=41)
same(names(Person.find(Person.age == 41)), ["Bob Lee"])
Person.find(Person.age == 41).update(email="new@example.com")
same(Person.get(bob.pk).email, "new@example.com")
same(len(list(Person.all_pks())), 3)
Person.delete(eve.pk)
try:
    Person.get(eve.pk)
    raise SystemExit("a deleted model is there")
except NotFoundError:
    same(names(Person.find(Person.address.city == "Oslo")), ["Ann Lee"])

Customer(name="x", spent=1.5, note="likes red shoes").save()
Customer(name="y", spent=99.25, note="likes blue hats").save()
same([one.name for one in Customer.find(Customer.spent > 50).all()], ["y"])
same([one.name for one in Customer.find(Customer.note % "shoe").all()], ["x"])
same(Customer.find(Customer.name == "x").first().spent, 1.5)
same(Customer.find(Customer.name == "x").delete(), 1)
same([one.name for one in Customer.find().all()], ["y"])
done()
