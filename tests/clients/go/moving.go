// SPDX-License-Identifier: BSD-3-Clause
// go-redis's ClusterClient while the cluster changes. Usage: client-test moving PORT moves|failover
//
// Increments counters on many keys until standard input ends: every reply must be correct, and no error may
// occur. With `failover`, primaries die: the library retries a request whose connection breaks, so an increment
// may count twice, but a counter never goes back; so it is after the answer UNCERTAIN, which a primary may give
// when it steps down. The program itself retries transactions, as with any cluster:
// when a slot moves between two commands of a transaction, or a node is unreachable, this version of the library
// sends only parts of it. Run by tests/clients/moving.rs.
package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const movingKeys = 50

func moving(port string, isExact bool) {
	// A long timeout: a stalled machine must not cause retries.
	options := &redis.ClusterOptions{Addrs: []string{"127.0.0.1:" + port}, ReadTimeout: time.Minute}
	if !isExact {
		// Enough retries for a lease to expire and a replica to take over.
		options.MaxRedirects = 200
		options.MinRetryBackoff, options.MaxRetryBackoff = 50*time.Millisecond, 200*time.Millisecond
	}
	client := redis.NewClusterClient(options)
	defer client.Close()
	alone := *options
	alone.MaxRedirects = -1
	transactions := redis.NewClusterClient(&alone)
	defer transactions.Close()
	var ended atomic.Value
	ended.Store(false)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	counted := make([]int, 4)
	var group sync.WaitGroup
	for worker := range counted {
		group.Add(1)
		go func(worker int) {
			defer group.Done()
			counted[worker] = movingWork(client, transactions, worker, isExact, func() bool { return ended.Load().(bool) })
		}(worker)
	}
	group.Wait()
	for _, count := range counted {
		checks += count
	}
}

// Reports whether a connection broke or could not be established.
func isOfNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF)
}

// Reports whether no command of a transaction was executed because its slot is elsewhere.
func isRedirected(err error) bool {
	return err != nil && (strings.HasPrefix(err.Error(), "MOVED ") || strings.HasPrefix(err.Error(), "EXECABORT "))
}

// Calls again as long as a primary answers that the outcome is unknown, as it may when primaries change.
func patient(isExact bool, call func() (int64, error)) (int64, error) {
	for {
		got, err := call()
		if err == nil || isExact || !strings.HasPrefix(err.Error(), "UNCERTAIN ") {
			return got, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func movingWork(client, transactions *redis.ClusterClient, worker int, isExact bool, hasEnded func() bool) int {
	counts := make([]int64, movingKeys)
	number := 0
	for ; !hasEnded(); number++ {
		index := number % movingKeys
		key := fmt.Sprintf("go:%d:%d", worker, index)
		var got int64
		if number%2 == 0 {
			got = must(patient(isExact, func() (int64, error) { return client.Incr(ctx, key).Result() }))
		} else {
			// Two keys of one slot in a transaction.
			transaction := func() (int64, error) {
				var count *redis.IntCmd
				_, err := transactions.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
					count = pipe.Incr(ctx, key)
					pipe.Set(ctx, "{"+key+"}:copy", counts[index]+1, 0)
					return nil
				})
				return count.Val(), err
			}
			var err error
			again := func() (int64, error) { return patient(isExact, transaction) }
			for got, err = again(); isRedirected(err) || !isExact && isOfNetwork(err); got, err = again() {
				transactions.ReloadState(ctx)
				time.Sleep(20 * time.Millisecond)
			}
			must(got, err)
		}
		if got <= counts[index] || isExact && got != counts[index]+1 {
			fmt.Printf("%s: %d after %d\n", key, got, counts[index])
			os.Exit(1)
		}
		counts[index] = got
	}
	for index, count := range counts {
		key := fmt.Sprintf("go:%d:%d", worker, index)
		read := func() (int64, error) { return client.Get(ctx, key).Int64() }
		if got := must(patient(isExact, read)); count > 0 && got != count {
			fmt.Printf("%s is %d, not %d\n", key, got, count)
			os.Exit(1)
		}
	}
	return number
}
