// SPDX-License-Identifier: BSD-3-Clause
package main

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// go-redis's ClusterClient against one server in cluster mode.
func clusterWork(port string, protocol int) {
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"127.0.0.1:" + port}, Protocol: protocol, ReadOnly: protocol == 3,
	})
	defer client.Close()
	must(client.FlushAll(ctx).Result())
	slots := must(client.ClusterSlots(ctx).Result())
	check(len(slots), 1, "ranges of slots")
	check([]int{slots[0].Start, slots[0].End}, []int{0, 16383}, "all slots")
	for number := 0; number < 100; number++ {
		must(client.Set(ctx, fmt.Sprintf("key:%d", number), number, 0).Result())
	}
	check(must(client.Get(ctx, "key:42").Result()), "42", "GET")
	check(must(client.MGet(ctx, "{t}a", "{t}b").Result()), []any{nil, nil}, "MGET in a slot")
	_, err := client.MGet(ctx, "a", "b").Result()
	check(err != nil && strings.HasPrefix(err.Error(), "CROSSSLOT "), true, "MGET over slots")
	pipe := client.Pipeline()
	for number := 0; number < 100; number++ {
		pipe.Get(ctx, fmt.Sprintf("key:%d", number))
	}
	replies := must(pipe.Exec(ctx))
	check(replies[99].(*redis.StringCmd).Val(), "99", "a pipeline over slots")
	transaction := must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Incr(ctx, "{m}a")
		pipe.Incr(ctx, "{m}b")
		return nil
	}))
	check(len(transaction), 2, "a transaction")
	slot := int(must(client.ClusterKeySlot(ctx, "key:5").Result()))
	check(must(client.ClusterCountKeysInSlot(ctx, slot).Result()) >= 1, true, "COUNTKEYSINSLOT")
	check(must(client.ClusterGetKeysInSlot(ctx, slot, 9).Result())[0] != "", true, "GETKEYSINSLOT")
	shards := must(client.ClusterShards(ctx).Result())
	check(shards[0].Nodes[0].Role, "master", "CLUSTER SHARDS")
	check(must(client.Eval(ctx, "return redis.call('get', KEYS[1])", []string{"key:7"}).Result()), any("7"), "EVAL")
	check(must(client.DBSize(ctx).Result()), int64(102), "DBSIZE")
	listener := client.SSubscribe(ctx, "news")
	defer listener.Close()
	must(listener.Receive(ctx))
	check(must(client.SPublish(ctx, "news", "hello").Result()), int64(1), "SPUBLISH")
	check(must(listener.ReceiveMessage(ctx)).Payload, "hello", "the message")
}
