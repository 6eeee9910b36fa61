/* The table policy; ../README.md says what it does. */
#include "flynn.h"

static char buf[128 << 10], number[24], line[8 << 10];

/* ---- facts by name ---- */

typedef struct {
	flynn_str name;
	uint32_t id, type;
} fact;

#define FACT(name, id, type) {{name, sizeof(name) - 1}, FLYNN_##id, FLYNN_TYPE_##type}

static const fact all[] = {
	FACT("channel", CHANNEL, STRING), FACT("conversation", CONVERSATION, STRING), FACT("conversation_kind", CONVERSATION_KIND, STRING),
	FACT("parent", PARENT, STRING), FACT("sender", SENDER, STRING), FACT("sender_name", SENDER_NAME, STRING),
	FACT("account", ACCOUNT, STRING), FACT("role", ROLE, STRING), FACT("text", TEXT, STRING), FACT("text_len", TEXT_LEN, INT),
	FACT("addressed", ADDRESSED, BOOL), FACT("attachments", ATTACHMENTS, INT), FACT("labels", LABELS, LIST), FACT("door", DOOR, STRING),
	FACT("unix_time", UNIX_TIME, INT), FACT("minute_of_day", MINUTE_OF_DAY, INT), FACT("weekday", WEEKDAY, INT),
	FACT("zone", ZONE, STRING), FACT("seed", SEED, INT), FACT("candidate", CANDIDATE, STRING), FACT("agents", AGENTS, LIST),
	FACT("edited", EDITED, BOOL), FACT("mentioned", MENTIONED, BOOL), FACT("attachment_types", ATTACHMENT_TYPES, LIST),
	FACT("sender_roles", SENDER_ROLES, LIST), FACT("session_tokens", SESSION_TOKENS, INT), FACT("session_cost", SESSION_COST, INT),
	FACT("session_age", SESSION_AGE, INT), FACT("agent", AGENT, STRING), FACT("tool", TOOL, STRING), FACT("effect", EFFECT, STRING),
	FACT("session", SESSION, STRING), FACT("args_digest", ARGS_DIGEST, STRING), FACT("sandboxed", SANDBOXED, BOOL),
	FACT("calls_in_turn", CALLS_IN_TURN, INT), FACT("turns", TURNS, INT),
};

static const fact *fact_named(flynn_str name) {
	for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
		if (flynn_eq(all[i].name, name))
			return &all[i];
	return 0;
}

static flynn_str truth(bool v) { return v ? FLYNN_S("true") : FLYNN_S("false"); }

static flynn_str decimal(int64_t v) {
	uint64_t rest = v < 0 ? -(uint64_t)v : (uint64_t)v;
	char *p = number + sizeof number;
	do
		*--p = (char)('0' + rest % 10);
	while (rest /= 10);
	if (v < 0)
		*--p = '-';
	return (flynn_str){p, (uint32_t)(number + sizeof number - p)};
}

static uint32_t append(uint32_t n, flynn_str s) {
	for (uint32_t i = 0; i < s.n && n < sizeof line; i++)
		line[n++] = s.p[i];
	return n;
}

static flynn_str bracketed(flynn_str rest) {
	uint32_t n = 0;
	flynn_str item;
	while (flynn_next(&rest, &item))
		n = append(append(append(n, FLYNN_S("[")), item), FLYNN_S("]"));
	return (flynn_str){line, n};
}

static flynn_str full_text(const flynn_facts *f) {
	flynn_str text = flynn_string(f, FLYNN_TEXT);
	if (flynn_int(f, FLYNN_TEXT_LEN) <= text.n)
		return text;
	int32_t n = flynn_get(FLYNN_TEXT, 0, buf, sizeof buf);
	return n < 0 || n > (int32_t)sizeof buf ? text : (flynn_str){buf, (uint32_t)n};
}

static flynn_str show(const flynn_facts *f, flynn_str name) {
	if (flynn_eq(name, FLYNN_S("full_text")))
		return full_text(f);
	const fact *k = fact_named(name);
	if (!k)
		return FLYNN_S("unknown");
	switch (k->type) {
	case FLYNN_TYPE_INT:
		return decimal(flynn_int(f, k->id));
	case FLYNN_TYPE_BOOL:
		return truth(flynn_bool(f, k->id));
	case FLYNN_TYPE_LIST:
		return bracketed(flynn_list(f, k->id));
	}
	return flynn_string(f, k->id);
}

static flynn_str has(const flynn_facts *f, flynn_str name) {
	const fact *k = fact_named(name);
	return truth(k && flynn_has(f, k->id));
}

/* ---- the question ---- */

static flynn_str before(flynn_str s, char c) {
	for (uint32_t i = 0; i < s.n; i++)
		if (s.p[i] == c)
			return (flynn_str){s.p, i};
	return s;
}

static flynn_str behind(flynn_str s, flynn_str head) {
	return head.n == s.n ? FLYNN_NONE : (flynn_str){s.p + head.n + 1, s.n - head.n - 1};
}

static flynn_str datum(flynn_str key) {
	buf[0] = '+';
	int32_t n = flynn_data(key, buf + 1, sizeof buf - 1);
	return n < 0 ? FLYNN_S("-") : (flynn_str){buf, (uint32_t)n + 1};
}

static uint32_t parsed(flynn_str s) {
	uint32_t n = 0;
	for (uint32_t i = 0; i < s.n && n < 1u << 27; i++)
		n = n * 10 + (uint32_t)(s.p[i] - '0');
	return n;
}

/* matcher is 0 where the verb is none. */
static uint32_t matcher(flynn_str verb) {
	if (flynn_eq(verb, FLYNN_S("glob")))
		return FLYNN_MATCH_GLOB;
	if (flynn_eq(verb, FLYNN_S("cidr")))
		return FLYNN_MATCH_CIDR;
	if (flynn_eq(verb, FLYNN_S("re2")))
		return FLYNN_MATCH_RE2;
	return flynn_eq(verb, FLYNN_S("domain")) ? FLYNN_MATCH_DOMAIN : 0;
}

/* neutral answers the verbs that restrict and route nothing. */
static bool neutral(const flynn_facts *f, flynn_str verb, flynn_str operand, int64_t *answer) {
	if (flynn_eq(verb, FLYNN_S("show")))
		*answer = flynn_answer(0, 1, 0, FLYNN_NONE, show(f, operand));
	else if (flynn_eq(verb, FLYNN_S("data")))
		*answer = flynn_answer(0, 3, 0, FLYNN_NONE, datum(operand));
	else if (flynn_eq(verb, FLYNN_S("has")))
		*answer = flynn_answer(0, 7, 0, FLYNN_NONE, has(f, operand));
	else if (flynn_eq(verb, FLYNN_S("rule")))
		*answer = flynn_answer(0, parsed(operand), 0, FLYNN_NONE, FLYNN_NONE);
	else
		return false;
	return true;
}

/* matching answers the verbs that match. */
static bool matching(flynn_str verb, flynn_str pattern, flynn_str subject, uint32_t verdict, int64_t *answer) {
	uint32_t kind = matcher(verb);
	if (!kind)
		return false;
	int32_t hit = flynn_match(kind, pattern, subject);
	*answer = hit < 0 ? FLYNN_FAIL : flynn_answer(hit ? verdict : 0, 4, 0, FLYNN_NONE, FLYNN_NONE);
	return true;
}

/* ---- routes ---- */

static bool any(const flynn_facts *f, uint32_t list, flynn_str want, bool whole) {
	flynn_str item, rest = flynn_list(f, list);
	while (flynn_next(&rest, &item))
		if (whole ? flynn_eq(item, want) : flynn_prefix(item, want))
			return true;
	return false;
}

static bool is(const flynn_facts *f, uint32_t id, flynn_str want) { return flynn_eq(flynn_string(f, id), want); }

static bool used(const flynn_facts *f) {
	return flynn_int(f, FLYNN_SESSION_COST) > 5000000 || flynn_int(f, FLYNN_SESSION_TOKENS) > 1000000;
}

static bool out_of_hours(const flynn_facts *f) {
	int64_t day = flynn_int(f, FLYNN_WEEKDAY), minute = flynn_int(f, FLYNN_MINUTE_OF_DAY);
	return is(f, FLYNN_ROLE, FLYNN_S("guest")) && (day == 0 || day == 6 || minute < 540 || minute >= 1020);
}

static int64_t route_rules(const flynn_facts *f) {
	if (any(f, FLYNN_SENDER_ROLES, FLYNN_S("banned"), true))
		return flynn_drop(10, FLYNN_S("banned on the platform"));
	if (flynn_bool(f, FLYNN_EDITED) && !flynn_bool(f, FLYNN_MENTIONED))
		return flynn_drop(11, FLYNN_S("an edit that calls nobody"));
	if (any(f, FLYNN_ATTACHMENT_TYPES, FLYNN_S("application/x-"), false))
		return flynn_agent(FLYNN_S("ops"), 12, FLYNN_S("an attachment to look at"));
	if (used(f) || flynn_int(f, FLYNN_SESSION_AGE) > 86400)
		return flynn_agent(FLYNN_S("frugal"), 13, FLYNN_S("a session that has used much"));
	if (is(f, FLYNN_CONVERSATION_KIND, FLYNN_S("thread")) && is(f, FLYNN_PARENT, FLYNN_S("c-ops")))
		return flynn_agent(FLYNN_S("ops"), 14, FLYNN_S("a thread of ops"));
	if (is(f, FLYNN_ROLE, FLYNN_S("owner")) && (is(f, FLYNN_DOOR, FLYNN_S("web")) || is(f, FLYNN_DOOR, FLYNN_S("terminal"))))
		return flynn_agent(FLYNN_S("coder"), 15, FLYNN_S("the owner's own frontend"));
	if (out_of_hours(f))
		return flynn_agent(FLYNN_S("night"), 16, FLYNN_S("out of hours"));
	if (flynn_match(FLYNN_MATCH_GLOB, FLYNN_S("*@example.com"), flynn_string(f, FLYNN_ACCOUNT)) == 1)
		return flynn_agent(FLYNN_S("staff"), 17, FLYNN_S("an account of the house"));
	if (flynn_int(f, FLYNN_TURNS) >= 10)
		return flynn_agent(FLYNN_S("fresh"), 18, FLYNN_S("a long session"));
	if (!flynn_bool(f, FLYNN_ADDRESSED))
		return flynn_drop(19, FLYNN_S("nobody called"));
	return flynn_abstain();
}

FLYNN_ON_ROUTE(f) {
	flynn_str question = before(flynn_string(f, FLYNN_TEXT), '\n'), verb = before(question, ' '), operand = behind(question, verb);
	int64_t answer;
	if (neutral(f, verb, operand, &answer) || matching(verb, operand, flynn_string(f, FLYNN_SENDER_NAME), FLYNN_ROUTE_DROP, &answer))
		return answer;
	if (flynn_eq(verb, FLYNN_S("agent")))
		return flynn_agent(operand, 5, flynn_string(f, FLYNN_SENDER_NAME));
	if (flynn_eq(verb, FLYNN_S("drop")))
		return flynn_drop(5, operand);
	if (flynn_eq(verb, FLYNN_S("abstain")))
		return flynn_abstain_because(5, operand);
	return route_rules(f);
}

/* ---- tools ---- */

/* arg is the string at the pointer; where there is another thing, or nothing, it is false. */
static bool arg(flynn_str pointer, char *at, uint32_t cap, flynn_str *value) {
	if (flynn_arg_kind(pointer) != FLYNN_KIND_STRING)
		return false;
	int32_t n = flynn_arg(pointer, at, cap);
	if (n < 0 || n > (int32_t)cap)
		return false;
	*value = (flynn_str){at, (uint32_t)n};
	return true;
}

static int64_t show_arg(flynn_str pointer) {
	static const flynn_str kinds[] = {{"absent:", 7}, {"null:", 5}, {"bool:", 5}, {"number:", 7}, {"string:", 7}, {"array:", 6}, {"object:", 7}};
	uint32_t n = append(0, kinds[flynn_arg_kind(pointer)]);
	int32_t got = flynn_arg(pointer, line + n, sizeof line - n);
	return flynn_restrict(0, 2, (flynn_str){line, n + (uint32_t)(got < 0 ? 0 : got)});
}

static int64_t restricted(flynn_str words) {
	uint32_t bits = 0;
	flynn_str name = FLYNN_NONE, reason = FLYNN_NONE;
	while (words.n > 0) {
		flynn_str word = before(words, ' ');
		words = behind(words, word);
		if (flynn_eq(word, FLYNN_S("deny")))
			bits |= FLYNN_TOOL_DENY;
		if (flynn_eq(word, FLYNN_S("ask")))
			bits |= FLYNN_TOOL_ASK;
		if (flynn_prefix(word, FLYNN_S("sandbox"))) {
			bits |= FLYNN_TOOL_SANDBOX;
			name = behind(word, before(word, '='));
		}
	}
	arg(FLYNN_S("/reason"), buf, sizeof buf, &reason);
	return flynn_answer(bits, 6, FLYNN_OUT_SANDBOX, name, reason);
}

/* joined is what the rules looked at so far demand. */
typedef struct {
	uint32_t bits, rule;
	flynn_str reason;
} joined;

static void rule(joined *j, uint32_t number, bool hit, uint32_t bits, flynn_str reason) {
	flynn_trace(number, hit);
	if (!hit)
		return;
	if (j->rule == 0)
		*j = (joined){j->bits, number, reason};
	j->bits |= bits;
}

static bool arg_matches(flynn_str pointer, uint32_t kind, flynn_str pattern) {
	flynn_str value;
	return arg(pointer, buf, sizeof buf, &value) && flynn_match(kind, pattern, value) == 1;
}

static bool arg_is(flynn_str pointer, flynn_str want) {
	flynn_str value;
	return arg(pointer, buf, sizeof buf, &value) && flynn_eq(value, want);
}

static bool forced(void) {
	char word[8];
	int32_t n = flynn_arg(FLYNN_S("/force"), word, sizeof word);
	return flynn_arg_kind(FLYNN_S("/force")) == FLYNN_KIND_BOOL && flynn_eq((flynn_str){word, (uint32_t)n}, FLYNN_S("true"));
}

static int64_t tool_rules(const flynn_facts *f) {
	bool executes = is(f, FLYNN_EFFECT, FLYNN_S("execute")), reaches = is(f, FLYNN_EFFECT, FLYNN_S("network"));
	joined j = {0, 0, FLYNN_NONE};
	rule(&j, 20, is(f, FLYNN_AGENT, FLYNN_S("intern")) && !is(f, FLYNN_EFFECT, FLYNN_S("read")), FLYNN_TOOL_DENY, FLYNN_S("interns only read"));
	rule(&j, 21, executes && any(f, FLYNN_LABELS, FLYNN_S("web:"), false), FLYNN_TOOL_ASK, FLYNN_S("after the web a person looks at commands"));
	rule(&j, 22, executes && !flynn_bool(f, FLYNN_SANDBOXED), FLYNN_TOOL_SANDBOX, FLYNN_S("commands run in a sandbox"));
	rule(&j, 23, flynn_int(f, FLYNN_CALLS_IN_TURN) >= 20, FLYNN_TOOL_ASK, FLYNN_S("many calls in one turn"));
	rule(&j, 24, arg_matches(FLYNN_S("/path"), FLYNN_MATCH_GLOB, FLYNN_S("/etc/*")), FLYNN_TOOL_DENY, FLYNN_S("not the machine's settings"));
	rule(&j, 25, reaches && !arg_matches(FLYNN_S("/host"), FLYNN_MATCH_DOMAIN, FLYNN_S("example.com")), FLYNN_TOOL_ASK, FLYNN_S("a host that nobody knows"));
	rule(&j, 26, arg_matches(FLYNN_S("/addr"), FLYNN_MATCH_CIDR, FLYNN_S("10.0.0.0/8")), FLYNN_TOOL_DENY, FLYNN_S("inside the house"));
	rule(&j, 27, is(f, FLYNN_TOOL, FLYNN_S("process.kill")) && !is(f, FLYNN_ROLE, FLYNN_S("owner")), FLYNN_TOOL_DENY, FLYNN_S("only the owner kills"));
	rule(&j, 28, used(f), FLYNN_TOOL_ASK, FLYNN_S("a session that has used much"));
	rule(&j, 29, arg_is(FLYNN_S("/items/1/name"), FLYNN_S("secret")), FLYNN_TOOL_DENY, FLYNN_S("the second item is secret"));
	rule(&j, 30, forced(), FLYNN_TOOL_ASK, FLYNN_S("by force"));
	rule(&j, 31, any(f, FLYNN_SENDER_ROLES, FLYNN_S("muted"), true), FLYNN_TOOL_DENY, FLYNN_S("muted on the platform"));
	rule(&j, 32, flynn_bool(f, FLYNN_EDITED), FLYNN_TOOL_ASK, FLYNN_S("the message was changed"));
	flynn_str sandbox = j.bits & FLYNN_TOOL_SANDBOX ? FLYNN_S("strict") : FLYNN_NONE;
	return flynn_answer(j.bits, j.rule, FLYNN_OUT_SANDBOX, sandbox, j.reason);
}

FLYNN_ON_TOOL(f) {
	static char asked[8 << 10], subject_at[8 << 10];
	flynn_str question = FLYNN_NONE, subject = FLYNN_NONE;
	arg(FLYNN_S("/ask"), asked, sizeof asked, &question);
	arg(FLYNN_S("/subject"), subject_at, sizeof subject_at, &subject);
	flynn_str verb = before(question, ' '), operand = behind(question, verb);
	int64_t answer;
	if (neutral(f, verb, operand, &answer) || matching(verb, operand, subject, FLYNN_TOOL_DENY, &answer))
		return answer;
	if (flynn_eq(verb, FLYNN_S("arg")))
		return show_arg(operand);
	if (flynn_eq(verb, FLYNN_S("restrict")))
		return restricted(operand);
	return tool_rules(f);
}
