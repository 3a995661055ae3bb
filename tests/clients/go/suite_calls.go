// SPDX-License-Identifier: BSD-3-Clause
package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Calls of go-redis's own test suite that servers have answered wrongly, on a server that reports
// redis_version 8.0.6.
func suiteCalls(open func() *redis.Client) {
	client := open()
	killsFromAnyConnection(open, client)
	for _, rule := range []string{"+cluster", "-slaveof", "-migrate", "+cluster|slots", "+@all"} {
		check(must(client.Do(ctx, "ACL", "SETUSER", "suite", rule).Result()), "OK", rule)
	}
	for _, words := range [][]any{{"CLUSTER", "INFO"}, {"CLUSTER", "SLOTS"}, {"READONLY"}, {"READWRITE"}, {"ASKING"}} {
		refused(client, "This instance has cluster support disabled", words...)
	}
	refused(client, "No failover in progress", "FAILOVER", "ABORT")
	check(must(client.SlaveOf(ctx, "NO", "ONE").Result()), "OK", "SLAVEOF NO ONE")
	info := must(client.Info(ctx, "server").Result())
	check(regexp.MustCompile(`redis_version:(\d+)`).FindStringSubmatch(info)[1], "8", "major version in redis_version")
	set := "return server.call('SET', KEYS[1], ARGV[1])"
	check(must(client.Eval(ctx, set, []string{"own"}, "v").Result()), "OK", "server.call")
	twin := "#!lua name=twin\nserver.register_function('twin', function(keys) return server.call('GET', keys[1]) end)"
	check(must(client.FunctionLoadReplace(ctx, twin).Result()), "twin", "server.register_function")
	check(must(client.FCall(ctx, "twin", []string{"own"}).Result()), "v", "the registered function")
	sha := must(client.ScriptLoad(ctx, "return 7").Result())
	check(must(client.Do(ctx, "SCRIPT", "SHOW", sha).Result()), "return 7", "SCRIPT SHOW")
	must(client.Set(ctx, "bits", "foobar", 0).Result())
	check(must(client.Do(ctx, "BITCOUNT", "bits", 1).Result()), int64(22), "BITCOUNT from a start to the end")
	check(must(client.Do(ctx, "CLIENT", "CAPA", "redirect").Result()), "OK", "CLIENT CAPA")
	check(strings.Contains(must(client.ClientList(ctx).Result()), " capa="), true, "capa= in CLIENT LIST")
	check(must(client.Do(ctx, "CLIENT", "IMPORT-SOURCE", "OFF").Result()), "OK", "CLIENT IMPORT-SOURCE")
	client.Del(ctx, "st")
	for _, id := range []string{"1-1", "2-1", "3-1"} {
		must(client.XAdd(ctx, &redis.XAddArgs{Stream: "st", ID: id, Values: []any{"n", id}}).Result())
	}
	last := must(client.XRead(ctx, &redis.XReadArgs{Streams: []string{"st", "+"}, Block: -1}).Result())
	check(last[0].Messages[0].ID, "3-1", "XREAD from the last entry")
	must(client.Do(ctx, "XGROUP", "CREATE", "st", "g", "0", "ENTRIESREAD", 9).Result())
	check(must(client.XInfoGroups(ctx, "st").Result())[0].Lag, int64(3), "lag with ENTRIESREAD ahead")
	all := must(client.Info(ctx, "everything").Result())
	for _, field := range []string{"allocator_muzzy", "evicted_scripts", "total_watched_keys", "watching_clients"} {
		check(strings.Contains(all, "\n"+field+":"), true, field)
	}
}

// Every connection sees an endless script or function and can kill it, once, long before
// busy-reply-threshold.
func killsFromAnyConnection(open func() *redis.Client, client *redis.Client) {
	loop := "#!lua name=loops\nredis.register_function{function_name='loop', " +
		"callback=function() while true do end end, flags={'no-writes'}}"
	must(client.FunctionLoadReplace(ctx, loop).Result())
	runs := []struct {
		kill  func(*redis.Client) *redis.StatusCmd
		words []any
	}{
		{scriptKill, []any{"EVAL", "while true do end", 0}},
		{scriptKill, []any{"EVAL_RO", "while true do redis.call('get', KEYS[1]) end", 1, "k"}},
		{functionKill, []any{"FCALL", "loop", 0}},
	}
	for _, run := range runs {
		for round := 0; round < 6; round++ {
			// Connect first: a connection's first commands may go to the thread that runs the script, and wait.
			asking, ended := open(), make(chan error)
			must(asking.Ping(ctx).Result())
			go func() { ended <- open().Do(ctx, run.words...).Err() }()
			until := time.Now().Add(4 * time.Second)
			for run.kill(asking).Err() != nil {
				check(time.Now().Before(until), true, "killed in time")
			}
			err := <-ended
			check(err != nil && strings.Contains(strings.ToLower(err.Error()), "kill"), true, fmt.Sprint(run.words[0]))
		}
	}
	refused(client, "NOTBUSY", "SCRIPT", "KILL")
	refused(client, "NOTBUSY", "FUNCTION", "KILL")
}

func scriptKill(client *redis.Client) *redis.StatusCmd {
	return client.ScriptKill(ctx)
}

func functionKill(client *redis.Client) *redis.StatusCmd {
	kill := redis.NewStatusCmd(ctx, "FUNCTION", "KILL")
	_ = client.Process(ctx, kill)
	return kill
}

func refused(client *redis.Client, text string, words ...any) {
	err := client.Do(ctx, words...).Err()
	if err == nil || !strings.Contains(err.Error(), text) {
		fmt.Printf("%v: got %v, expected %s\n", words, err, text)
		os.Exit(1)
	}
	checks++
}
