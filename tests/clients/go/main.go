// SPDX-License-Identifier: BSD-3-Clause
// Typical work through go-redis, in RESP2 and RESP3. Usage: client-test PORT [suite | cluster]; see
// sentinel.go and moving.go for the other forms.
//
// A failed check ends the program; the last line is "N checks passed". Run by tests/clients/main.rs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	ctx    = context.Background()
	checks int
)

func check(got, expected any, what string) {
	if !reflect.DeepEqual(got, expected) {
		fmt.Printf("%s: got %#v, expected %#v\n", what, got, expected)
		os.Exit(1)
	}
	checks++
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Printf("unexpected error: %v\n", err)
		os.Exit(1)
	}
	return value
}

func stringsWork(client *redis.Client) {
	check(must(client.Set(ctx, "s", "value", 100*time.Second).Result()), "OK", "SET EX")
	check(must(client.Get(ctx, "s").Result()), "value", "GET")
	ttl := must(client.TTL(ctx, "s").Result())
	check(ttl > 98*time.Second && ttl <= 100*time.Second, true, "TTL")
	check(must(client.SetNX(ctx, "s", "other", 0).Result()), false, "SETNX on an existing key")
	check(must(client.SetArgs(ctx, "s", "new", redis.SetArgs{Get: true}).Result()), "value", "SET GET")
	check(must(client.MSet(ctx, "a", "1", "b", "2").Result()), "OK", "MSET")
	check(must(client.MGet(ctx, "a", "nosuch", "b").Result()), []any{"1", nil, "2"}, "MGET")
	check(must(client.IncrBy(ctx, "a", 41).Result()), int64(42), "INCRBY")
	check(must(client.IncrByFloat(ctx, "f", 0.5).Result()), 0.5, "INCRBYFLOAT")
	check(must(client.GetRange(ctx, "s", 1, 2).Result()), "ew", "GETRANGE")
	check(must(client.GetDel(ctx, "s").Result()), "new", "GETDEL")
	check(client.Get(ctx, "s").Err(), redis.Nil, "GET of a missing key")
	check(must(client.BitField(ctx, "bf", "SET", "u8", "0", "200", "INCRBY", "u8", "0", "10").Result()),
		[]int64{0, 210}, "BITFIELD")
	client.Set(ctx, "text", "abc", 0)
	check(client.Incr(ctx, "text").Err().Error(), "ERR value is not an integer or out of range", "error text")
}

func keysWork(client *redis.Client) {
	client.Set(ctx, "from", "v", 0)
	check(must(client.Rename(ctx, "from", "to").Result()), "OK", "RENAME")
	check(must(client.Copy(ctx, "to", "copied", 0, false).Result()), int64(1), "COPY")
	check(must(client.Type(ctx, "copied").Result()), "string", "TYPE")
	for number := 0; number < 1000; number++ {
		must(client.Set(ctx, "scan:"+strconv.Itoa(number), number, 0).Result())
	}
	found := map[string]bool{}
	iterator := client.Scan(ctx, 0, "scan:*", 50).Iterator()
	for iterator.Next(ctx) {
		found[iterator.Val()] = true
	}
	check(iterator.Err(), nil, "SCAN")
	check(len(found), 1000, "keys that SCAN returned")
}

func pipelinesWork(client *redis.Client) {
	replies, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for number := 0; number < 500; number++ {
			pipe.Set(ctx, "p:"+strconv.Itoa(number), number, 0)
			pipe.Get(ctx, "p:"+strconv.Itoa(number))
		}
		return nil
	})
	check(err, nil, "pipeline")
	check(replies[999].(*redis.StringCmd).Val(), "499", "last reply of the pipeline")
	var number *redis.IntCmd
	_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "t", 1, 0)
		number = pipe.Incr(ctx, "t")
		return nil
	})
	check(err, nil, "MULTI/EXEC")
	check(number.Val(), int64(2), "INCR inside MULTI")
}

func transactionsWork(client *redis.Client) {
	client.Set(ctx, "counter", 0, 0)
	var group sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for done := 0; done < 50; {
				err := client.Watch(ctx, func(tx *redis.Tx) error {
					value, err := tx.Get(ctx, "counter").Int()
					if err != nil {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						pipe.Set(ctx, "counter", value+1, 0)
						return nil
					})
					return err
				}, "counter")
				if err == nil {
					done++
				} else if !errors.Is(err, redis.TxFailedErr) {
					fmt.Printf("WATCH: %v\n", err)
					os.Exit(1)
				}
			}
		}()
	}
	group.Wait()
	check(must(client.Get(ctx, "counter").Result()), "200", "WATCH under contention")
}

func main() {
	if os.Args[1] == "sentinel" {
		followFailover(os.Args[2], os.Args[3:])
		return
	}
	if os.Args[1] == "moving" {
		moving(os.Args[2], os.Args[3] == "moves")
		fmt.Printf("%d checks passed\n", checks)
		return
	}
	for _, protocol := range []int{2, 3} {
		open := func() *redis.Client {
			return redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
		}
		if len(os.Args) > 2 && os.Args[2] == "cluster" {
			clusterWork(os.Args[1], protocol)
			continue
		}
		if len(os.Args) > 2 {
			suiteCalls(open)
			continue
		}
		client := open()
		must(client.FlushAll(ctx).Result())
		stringsWork(client)
		keysWork(client)
		pipelinesWork(client)
		transactionsWork(client)
		jsonWork(client)
		check(must(client.Ping(ctx).Result()), "PONG", "PING")
		check(must(client.ConfigGet(ctx, "timeout").Result()), map[string]string{"timeout": "0"}, "CONFIG GET")
		check(len(must(client.Info(ctx, "server").Result())) > 100, true, "INFO")
		client.Close()
	}
	fmt.Printf("%d checks passed\n", checks)
}
