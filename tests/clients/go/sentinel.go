// SPDX-License-Identifier: BSD-3-Clause
// go-redis's failover client follows a failover of a group. Usage: client-test sentinel GROUP PORT...
//
// Increments a counter; prints "started" once that works, and "followed COUNT" after some failures and many
// successes. Run by tests/group/discovery.rs, which kills the primary in between.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/redis/go-redis/v9"
)

func followFailover(group string, ports []string) {
	var addresses []string
	for _, port := range ports {
		addresses = append(addresses, "127.0.0.1:"+port)
	}
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    group,
		SentinelAddrs: addresses,
		MaxRetries:    -1,
		DialTimeout:   500 * time.Millisecond,
		ReadTimeout:   500 * time.Millisecond,
	})
	failures, successes := 0, 0
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		count, err := client.Incr(ctx, "n").Result()
		if err != nil {
			failures, successes = failures+1, 0
			time.Sleep(20 * time.Millisecond)
			continue
		}
		successes++
		if failures == 0 && successes == 5 {
			fmt.Println("started")
		}
		if failures > 0 && successes == 20 {
			fmt.Printf("followed %d\n", count)
			return
		}
	}
	fmt.Fprintf(os.Stderr, "no success: %d failures\n", failures)
	os.Exit(1)
}
