// SPDX-License-Identifier: BSD-3-Clause
//! The changes to Lua 5.1.5: read-only tables, a secure string hash, interruption of every
//! operation that can take long, and fixes of known weaknesses.

/// One change of one file.
pub struct Patch {
    pub file: &'static str,
    pub why: &'static str,
    /// Number of occurrences in the file.
    pub times: usize,
    pub before: &'static str,
    pub after: &'static str,
}

const HASH: &str =
    "all of a string is hashed, with a key: 5.1.5 looks at 32 bytes, so similar long strings share one chain";
const POLL: &str = "what takes long outside of instructions asks whether the run is to be interrupted, too";

const READ_ONLY: &str = "tables that scripts share can be made read-only, whatever way they are written";

pub const PATCHES: &[Patch] = &[
    Patch {
        file: "lobject.h",
        why: READ_ONLY,
        times: 1,
        before: "  lu_byte lsizenode;  /* log2 of size of `node' array */\n",
        after: "  lu_byte lsizenode;  /* log2 of size of `node' array */\n  lu_byte sealed;  /* read-only */\n",
    },
    Patch {
        file: "ltable.c",
        why: READ_ONLY,
        times: 1,
        before: "  t->flags = cast_byte(~0);\n",
        after: "  t->flags = cast_byte(~0);\n  t->sealed = 0;\n",
    },
    Patch {
        file: "lvm.c",
        why: READ_ONLY,
        times: 1,
        before: "      Table *h = hvalue(t);\n      TValue *oldval = luaH_set(L, h, key); /* do a primitive set */\n",
        after: "      Table *h = hvalue(t);\n      TValue *oldval;\n      if (h->sealed) luaG_runerror(L, \"Attempt to modify a \
                readonly table\");\n      oldval = luaH_set(L, h, key); /* do a primitive set */\n",
    },
    Patch {
        file: "lapi.c",
        why: READ_ONLY,
        times: 1,
        before: "  setobj2t(L, luaH_set(L, hvalue(t), L->top-2), L->top-1);\n",
        after: "  if (hvalue(t)->sealed) luaG_runerror(L, \"Attempt to modify a readonly table\");\n  \
                setobj2t(L, luaH_set(L, hvalue(t), L->top-2), L->top-1);\n",
    },
    Patch {
        file: "lapi.c",
        why: READ_ONLY,
        times: 1,
        before: "  setobj2t(L, luaH_setnum(L, hvalue(o), n), L->top-1);\n",
        after: "  if (hvalue(o)->sealed) luaG_runerror(L, \"Attempt to modify a readonly table\");\n  \
                setobj2t(L, luaH_setnum(L, hvalue(o), n), L->top-1);\n",
    },
    Patch {
        file: "lapi.c",
        why: READ_ONLY,
        times: 1,
        before: "      hvalue(obj)->metatable = mt;\n",
        after: "      if (hvalue(obj)->sealed) luaG_runerror(L, \"Attempt to modify a readonly table\");\n      \
                hvalue(obj)->metatable = mt;\n",
    },
    Patch {
        file: "lapi.c",
        why: "ways to make a table read-only, and back, and to raise an error past all handlers of the script",
        times: 1,
        before: "LUA_API int lua_setmetatable (lua_State *L, int objindex) {\n",
        after: "LUA_API void braid_lua_seal (lua_State *L, int idx, int sealed) {\n  StkId t = index2adr(L, idx);\n  \
                if (ttistable(t)) hvalue(t)->sealed = cast_byte(sealed != 0);\n}\n\n\n\
                LUA_API int braid_lua_is_sealed (lua_State *L, int idx) {\n  StkId t = index2adr(L, idx);\n  \
                return ttistable(t) && hvalue(t)->sealed;\n}\n\n\n\
                LUA_API void braid_lua_unwind (lua_State *L) {\n  luaD_throw(L, LUA_ERRRUN);\n}\n\n\n\
                LUA_API int lua_setmetatable (lua_State *L, int objindex) {\n",
    },
    Patch {
        file: "ldo.c",
        why: "code is only taken as text: the interpreter trusts byte code blindly",
        times: 1,
        before: "  int c = luaZ_lookahead(p->z);\n",
        after: "",
    },
    Patch {
        file: "ldo.c",
        why: "as above",
        times: 1,
        before: "  tf = ((c == LUA_SIGNATURE[0]) ? luaU_undump : luaY_parser)(L, p->z,\n                                                             \
                 &p->buff, p->name);\n",
        after: "  tf = luaY_parser(L, p->z, &p->buff, p->name);\n",
    },
    Patch {
        file: "lparser.c",
        why: "the chunk's name could be collected while the parser still uses it (CVE-2025-49844)",
        times: 1,
        before: "  luaX_setinput(L, &lexstate, z, luaS_new(L, name));\n",
        after: "  TString *anchored = luaS_new(L, name);\n  setsvalue2s(L, L->top, anchored);\n  incr_top(L);\n  \
                luaX_setinput(L, &lexstate, z, anchored);\n",
    },
    Patch {
        file: "lparser.c",
        why: "as above",
        times: 1,
        before: "  lua_assert(lexstate.fs == NULL);\n  return funcstate.f;\n",
        after: "  lua_assert(lexstate.fs == NULL);\n  L->top--;\n  return funcstate.f;\n",
    },
    Patch {
        file: "lbaselib.c",
        why: "the number of elements must not overflow (CVE-2025-46817)",
        times: 1,
        before: "  n = e - i + 1;  /* number of elements */\n  if (n <= 0 || !lua_checkstack(L, n))  /* n <= 0 means arith. overflow */\n",
        after: "  if ((unsigned)e - (unsigned)i >= 1000000u) return luaL_error(L, \"too many results to unpack\");\n  \
                n = e - i + 1;  /* number of elements */\n  if (!lua_checkstack(L, n))\n",
    },
    Patch {
        file: "lstrlib.c",
        why: "matching a pattern must not recurse without bound",
        times: 1,
        before: "  int level;  /* total number of captures (finished or unfinished) */\n",
        after: "  int level;  /* total number of captures (finished or unfinished) */\n  int depth;  /* of recursion */\n  unsigned int \
                steps;\n",
    },
    Patch {
        file: "lstrlib.c",
        why: "as above",
        times: 3,
        before: "ms.L = L;\n",
        after: "ms.L = L; ms.depth = 0; ms.steps = 0;\n",
    },
    Patch {
        file: "lstrlib.c",
        why: "as above",
        times: 1,
        before: "static const char *match (MatchState *ms, const char *s, const char *p) {\n",
        after: "static const char *match_here (MatchState *ms, const char *s, const char *p);\n\n\n\
                static const char *match (MatchState *ms, const char *s, const char *p) {\n  const char *end;\n  \
                if (ms->depth >= 200) luaL_error(ms->L, \"pattern too complex\");\n  if ((++ms->steps & 0xff) == 0) \
                braid_lua_poll(ms->L);\n  ms->depth++;\n  \
                end = match_here(ms, s, p);\n  ms->depth--;\n  return end;\n}\n\n\n\
                static const char *match_here (MatchState *ms, const char *s, const char *p) {\n",
    },
    Patch {
        file: "llex.c",
        why: "the level of a long bracket must not overflow (CVE-2025-46819)",
        times: 1,
        before: "    save_and_next(ls);\n    count++;\n  }\n  return (ls->current == s) ? count : (-count) - 1;\n",
        after: "    save_and_next(ls);\n    if (++count > 10000) luaX_lexerror(ls, \"long bracket too long\", TK_STRING);\n  }\n  \
                return (ls->current == s) ? count : (-count) - 1;\n",
    },
    Patch {
        file: "lstring.c",
        why: HASH,
        times: 1,
        before: "  unsigned int h = cast(unsigned int, l);  /* seed */\n  size_t step = (l>>5)+1;  /* if string is too long, don't hash all its chars \
                 */\n  size_t l1;\n  for (l1=l; l1>=step; l1-=step)  /* compute hash */\n    h = h ^ ((h<<5)+(h>>2)+cast(unsigned char, \
                 str[l1-1]));\n",
        after: "  unsigned int h = braid_lua_hash(str, l);\n",
    },
    Patch {
        file: "lstring.c",
        why: HASH,
        times: 1,
        before: "TString *luaS_newlstr (lua_State *L, const char *str, size_t l) {\n",
        after: "extern unsigned int braid_lua_hash (const char *str, size_t l);\n\n\n\
                TString *luaS_newlstr (lua_State *L, const char *str, size_t l) {\n",
    },
    Patch {
        file: "lua.h",
        why: POLL,
        times: 1,
        before: "LUA_API void lua_setallocf (lua_State *L, lua_Alloc f, void *ud);\n",
        after: "LUA_API void lua_setallocf (lua_State *L, lua_Alloc f, void *ud);\n\
                LUA_API void braid_lua_poll (lua_State *L);\n",
    },
    Patch {
        file: "lstate.h",
        why: "the allocator's data begins with a pointer to the word that asks for an interruption (src/memory.rs)",
        times: 1,
        before: "#define G(L)\t(L->l_G)\n",
        after: "#define G(L)\t(L->l_G)\n\
                #define braid_asked(L)\t(**cast(volatile unsigned int **, G(L)->ud) != 0)\n\
                #define braid_poll(L)\t{ if (braid_asked(L)) braid_lua_poll(L); }\n",
    },
    Patch {
        file: "lapi.c",
        why: POLL,
        times: 1,
        before: "LUA_API int lua_checkstack (lua_State *L, int size) {\n",
        after: "/* May raise an error, and may move the stack. */\n\
                LUA_API void braid_lua_poll (lua_State *L) {\n  if (braid_asked(L)) luaD_callhook(L, LUA_HOOKCOUNT, -1);\n}\n\n\n\
                LUA_API int lua_checkstack (lua_State *L, int size) {\n",
    },
    Patch {
        file: "ldo.c",
        why: POLL,
        times: 1,
        before: "    luaD_checkstack(L, LUA_MINSTACK);  /* ensure minimum stack size */\n    ci = inc_ci(L);  /* now `enter' new \
                 function */\n    ci->func = restorestack(L, funcr);\n    L->base = ci->base = ci->func + 1;\n    ci->top = L->top + \
                 LUA_MINSTACK;\n",
        after: "    braid_poll(L);\n    luaD_checkstack(L, LUA_MINSTACK);  /* ensure minimum stack size */\n    ci = inc_ci(L);  /* now \
                `enter' new function */\n    ci->func = restorestack(L, funcr);\n    L->base = ci->base = ci->func + 1;\n    ci->top = \
                L->top + LUA_MINSTACK;\n",
    },
    Patch {
        file: "lvm.c",
        why: POLL,
        times: 1,
        before: "void luaV_concat (lua_State *L, int total, int last) {\n  do {\n",
        after: "void luaV_concat (lua_State *L, int total, int last) {\n  braid_poll(L);\n  do {\n",
    },
    Patch {
        file: "lvm.c",
        why: "as above; behind the comparison, which points into the stack",
        times: 1,
        before: "    return l_strcmp(rawtsvalue(l), rawtsvalue(r)) < 0;\n",
        after: "  {\n    res = l_strcmp(rawtsvalue(l), rawtsvalue(r)) < 0;\n    braid_poll(L);\n    return res;\n  }\n",
    },
    Patch {
        file: "lvm.c",
        why: "as above",
        times: 1,
        before: "    return l_strcmp(rawtsvalue(l), rawtsvalue(r)) <= 0;\n",
        after: "  {\n    res = l_strcmp(rawtsvalue(l), rawtsvalue(r)) <= 0;\n    braid_poll(L);\n    return res;\n  }\n",
    },
    Patch {
        file: "lauxlib.c",
        why: POLL,
        times: 1,
        before: "  if (emptybuffer(B))\n    adjuststack(B);\n  return B->buffer;\n",
        after: "  if (emptybuffer(B))\n    adjuststack(B);\n  braid_lua_poll(B->L);\n  return B->buffer;\n",
    },
    Patch {
        file: "lauxlib.c",
        why: POLL,
        times: 1,
        before: "    B->lvl++;  /* add new value into B stack */\n    adjuststack(B);\n",
        after: "    B->lvl++;  /* add new value into B stack */\n    adjuststack(B);\n    braid_lua_poll(L);\n",
    },
    Patch {
        file: "lstrlib.c",
        why: POLL,
        times: 1,
        before: "  ptrdiff_t i = 0;  /* counts maximum expand for item */\n  while ((s+i)<ms->src_end && singlematch(uchar(*(s+i)), p, \
                 ep))\n    i++;\n",
        after: "  ptrdiff_t i = 0;  /* counts maximum expand for item */\n  while ((s+i)<ms->src_end && singlematch(uchar(*(s+i)), p, ep))\n    \
                if ((++i & 0xffff) == 0) braid_lua_poll(ms->L);\n",
    },
    Patch {
        file: "lstrlib.c",
        why: POLL,
        times: 1,
        before: "    while (++s < ms->src_end) {\n      if (*s == e) {\n",
        after: "    while (++s < ms->src_end) {\n      if (((size_t)s & 0xffff) == 0) braid_lua_poll(ms->L);\n      if (*s == e) {\n",
    },
    Patch {
        file: "lstrlib.c",
        why: "as above: comparing at every place may take as long as both texts multiplied",
        times: 1,
        before: "static const char *lmemfind (const char *s1, size_t l1,\n",
        after: "static const char *lmemfind (lua_State *L, const char *s1, size_t l1,\n",
    },
    Patch {
        file: "lstrlib.c",
        why: "as above",
        times: 1,
        before: "    while (l1 > 0 && (init = (const char *)memchr(s1, *s2, l1)) != NULL) {\n",
        after: "    while (l1 > 0 && (init = (const char *)memchr(s1, *s2, l1)) != NULL) {\n      braid_lua_poll(L);\n",
    },
    Patch {
        file: "lstrlib.c",
        why: "as above",
        times: 1,
        before: "    const char *s2 = lmemfind(s+init, l1-init, p, l2);\n",
        after: "    const char *s2 = lmemfind(L, s+init, l1-init, p, l2);\n",
    },
    Patch {
        file: "ltablib.c",
        why: POLL,
        times: 1,
        before: "      for (i = e; i > pos; i--) {  /* move up elements */\n",
        after: "      for (i = e; i > pos; i--) {  /* move up elements */\n        if ((i & 0xfff) == 0) braid_lua_poll(L);\n",
    },
    Patch {
        file: "ltablib.c",
        why: POLL,
        times: 1,
        before: "  for ( ;pos<e; pos++) {\n",
        after: "  for ( ;pos<e; pos++) {\n    if ((pos & 0xfff) == 0) braid_lua_poll(L);\n",
    },
    Patch {
        file: "ltablib.c",
        why: POLL,
        times: 1,
        before: "static void addfield (lua_State *L, luaL_Buffer *b, int i) {\n",
        after: "static void addfield (lua_State *L, luaL_Buffer *b, int i) {\n  braid_lua_poll(L);\n",
    },
    Patch {
        file: "ltablib.c",
        why: POLL,
        times: 1,
        before: "    lua_pop(L, 1);  /* remove value */\n    if (lua_type(L, -1) == LUA_TNUMBER) {\n",
        after: "    braid_lua_poll(L);\n    lua_pop(L, 1);  /* remove value */\n    if (lua_type(L, -1) == LUA_TNUMBER) {\n",
    },
    Patch {
        file: "ltablib.c",
        why: POLL,
        times: 1,
        before: "static int sort_comp (lua_State *L, int a, int b) {\n",
        after: "static int sort_comp (lua_State *L, int a, int b) {\n  braid_lua_poll(L);\n",
    },
];
