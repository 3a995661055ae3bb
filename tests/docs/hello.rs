// SPDX-License-Identifier: BSD-3-Clause
use redis::Commands;

fn main() -> redis::RedisResult<()> {
    let client = redis::Client::open("redis://127.0.0.1:6379/")?;
    let mut connection = client.get_connection()?;
    let (visits,): (i64,) =
        redis::pipe().set("user:1:name", "Ann").ignore().incr("visits", 3).query(&mut connection)?;
    println!("{visits}");
    let name: String = connection.get("user:1:name")?;
    println!("{name}");
    connection.del(&["user:1:name", "visits"])
}
