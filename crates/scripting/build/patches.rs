//! The changes to Lua 5.1.5: read-only tables, and fixes of known weaknesses.

/// One change of one file.
pub struct Patch {
    pub file: &'static str,
    pub why: &'static str,
    /// How often it is in the file.
    pub times: usize,
    pub before: &'static str,
    pub after: &'static str,
}

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
        after: "  int level;  /* total number of captures (finished or unfinished) */\n  int depth;  /* of recursion */\n",
    },
    Patch {
        file: "lstrlib.c",
        why: "as above",
        times: 3,
        before: "ms.L = L;\n",
        after: "ms.L = L; ms.depth = 0;\n",
    },
    Patch {
        file: "lstrlib.c",
        why: "as above",
        times: 1,
        before: "static const char *match (MatchState *ms, const char *s, const char *p) {\n",
        after: "static const char *match_here (MatchState *ms, const char *s, const char *p);\n\n\n\
                static const char *match (MatchState *ms, const char *s, const char *p) {\n  const char *end;\n  \
                if (ms->depth >= 200) luaL_error(ms->L, \"pattern too complex\");\n  ms->depth++;\n  \
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
];
