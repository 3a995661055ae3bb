// SPDX-License-Identifier: BSD-3-Clause
// The JSON methods of go-redis. A Redis Stack passes it too.
package main

import (
	"github.com/redis/go-redis/v9"
)

func number(value int64) *int64 { return &value }

func jsonWork(client *redis.Client) {
	infos := must(client.Command(ctx).Result())
	if _, known := infos["json.set"]; !known {
		check(client.JSONSet(ctx, "doc", "$", 1).Err() != nil, true, "no JSON commands")
		return
	}
	document := `{"a":1,"f":1.5,"s":"text","b":true,"l":[1,"x",2.5],"o":{"a":null}}`
	check(must(client.JSONSet(ctx, "doc", "$", document).Result()), "OK", "JSON.SET")
	check(client.JSONSetMode(ctx, "doc", "$", 1, "NX").Err(), redis.Nil, "JSON.SET NX")
	check(must(client.JSONGet(ctx, "doc", ".").Result()), document, "JSON.GET")
	check(must(client.JSONGet(ctx, "doc", "$.l[2]").Result()), "[2.5]", "JSON.GET of a path")
	check(must(client.JSONNumIncrBy(ctx, "doc", "$.a", 2).Result()), "[3]", "JSON.NUMINCRBY")
	check(must(client.JSONStrAppend(ctx, "doc", "$.s", `" more"`).Result()), []*int64{number(9)}, "JSON.STRAPPEND")
	check(must(client.JSONStrLen(ctx, "doc", "$.s").Result()), []*int64{number(9)}, "JSON.STRLEN")
	check(must(client.JSONArrAppend(ctx, "doc", "$.l", `"y"`, `{"z":1}`).Result()), []int64{5}, "JSON.ARRAPPEND")
	check(must(client.JSONArrIndex(ctx, "doc", "$.l", `"y"`).Result()), []int64{3}, "JSON.ARRINDEX")
	check(must(client.JSONArrInsert(ctx, "doc", "$.l", 0, `"first"`).Result()), []int64{6}, "JSON.ARRINSERT")
	check(must(client.JSONArrLen(ctx, "doc", "$.l").Result()), []int64{6}, "JSON.ARRLEN")
	check(must(client.JSONArrPop(ctx, "doc", "$.l", -1).Result()), []string{`{"z":1}`}, "JSON.ARRPOP")
	trimmed := client.JSONArrTrimWithArgs(ctx, "doc", "$.l", &redis.JSONArrTrimArgs{Start: 1, Stop: pointer(2)})
	check(must(trimmed.Result()), []int64{2}, "JSON.ARRTRIM")
	check(must(client.JSONObjKeys(ctx, "doc", "$.o").Result()), []any{[]any{"a"}}, "JSON.OBJKEYS")
	check(must(client.JSONObjLen(ctx, "doc", "$").Result()), []*int64{number(6)}, "JSON.OBJLEN")
	check(must(client.JSONMerge(ctx, "doc", "$.o", `{"a":5,"n":"new"}`).Result()), "OK", "JSON.MERGE")
	check(must(client.JSONGet(ctx, "doc", "$.o").Result()), `[{"a":5,"n":"new"}]`, "JSON.GET after JSON.MERGE")
	check(must(client.JSONMSet(ctx, "one", "$", "1", "two", "$", "[2]").Result()), "OK", "JSON.MSET")
	check(must(client.JSONMGet(ctx, "$", "one", "none", "two").Result()), []any{"[1]", nil, "[[2]]"}, "JSON.MGET")
	check(must(client.JSONDel(ctx, "doc", "$.o.n").Result()), int64(1), "JSON.DEL")
	check(must(client.JSONForget(ctx, "doc", "$.o").Result()), int64(1), "JSON.FORGET")
	check(must(client.JSONToggle(ctx, "doc", "$.b").Result()), []*int64{number(0)}, "JSON.TOGGLE")
	check(must(client.JSONClear(ctx, "doc", "$.l").Result()), int64(1), "JSON.CLEAR")
	check(must(client.JSONGet(ctx, "doc", ".").Result()), `{"a":3,"f":1.5,"s":"text more","b":false,"l":[]}`, "the document")
	types := must(client.JSONType(ctx, "doc", "$.l").Result())
	check(len(types), 1, "JSON.TYPE")
	check(must(client.Type(ctx, "doc").Result()), "ReJSON-RL", "TYPE")
}

func pointer(value int) *int { return &value }
