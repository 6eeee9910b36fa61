/* One of the siblings: it reads everything that the SDK can read and answers with a hash of it. */
#include "flynn.h"

/* FNV-1a, 32 bits. */
static void add(uint32_t *h, uint8_t b) { *h = (*h ^ b) * 16777619u; }

static void add_str(uint32_t *h, flynn_str s) {
	for (uint32_t i = 0; i < s.n; i++)
		add(h, (uint8_t)s.p[i]);
	add(h, 0xff);
}

static void add_int(uint32_t *h, int64_t v) {
	for (int i = 0; i < 8; i++, v >>= 8)
		add(h, (uint8_t)v);
}

static void add_list(uint32_t *h, flynn_str rest) {
	flynn_str item;
	while (flynn_next(&rest, &item))
		add_str(h, item);
	add(h, 0xfe);
}

static char buf[128 << 10];

static void add_lazy(uint32_t *h, int32_t n) {
	add(h, n >= 0);
	add_str(h, n >= 0 ? (flynn_str){buf, (uint32_t)n} : FLYNN_NONE);
}

/* The answer has 24 bits for it. */
static uint32_t rule(uint32_t h) { return (h ^ h >> 24) & 0xffffffu; }

static flynn_str whole_text(const flynn_facts *f) {
	flynn_str text = flynn_string(f, FLYNN_TEXT);
	if (flynn_int(f, FLYNN_TEXT_LEN) <= text.n)
		return text;
	int32_t n = flynn_get(FLYNN_TEXT, 0, buf, sizeof buf);
	return n < 0 ? text : (flynn_str){buf, (uint32_t)n};
}

static uint32_t common(const flynn_facts *f) {
	static const uint8_t strings[] = {FLYNN_CHANNEL, FLYNN_CONVERSATION, FLYNN_CONVERSATION_KIND, FLYNN_PARENT, FLYNN_SENDER,
					  FLYNN_SENDER_NAME, FLYNN_ACCOUNT, FLYNN_ROLE, FLYNN_TEXT, FLYNN_DOOR, FLYNN_ZONE};
	static const uint8_t ints[] = {FLYNN_TEXT_LEN, FLYNN_ATTACHMENTS, FLYNN_UNIX_TIME, FLYNN_MINUTE_OF_DAY, FLYNN_WEEKDAY, FLYNN_SEED,
				       FLYNN_SESSION_TOKENS, FLYNN_SESSION_COST, FLYNN_SESSION_AGE, FLYNN_TURNS};
	static const uint8_t bools[] = {FLYNN_ADDRESSED, FLYNN_EDITED, FLYNN_MENTIONED};
	static const uint8_t lists[] = {FLYNN_LABELS, FLYNN_ATTACHMENT_TYPES, FLYNN_SENDER_ROLES};
	uint32_t h = 2166136261u;
	for (uint32_t id = 0; id <= 70; id++)
		add(&h, flynn_has(f, id));
	for (uint32_t i = 0; i < sizeof strings; i++)
		add_str(&h, flynn_string(f, strings[i]));
	for (uint32_t i = 0; i < sizeof ints; i++)
		add_int(&h, flynn_int(f, ints[i]));
	for (uint32_t i = 0; i < sizeof bools; i++)
		add(&h, flynn_bool(f, bools[i]));
	for (uint32_t i = 0; i < sizeof lists; i++)
		add_list(&h, flynn_list(f, lists[i]));
	add_str(&h, whole_text(f));
	add_lazy(&h, flynn_data(FLYNN_S("key"), buf, sizeof buf));
	add_lazy(&h, flynn_data(FLYNN_S("absent"), buf, sizeof buf));
	return h;
}

FLYNN_ON_ROUTE(f) {
	uint32_t h = common(f);
	flynn_str candidate = flynn_string(f, FLYNN_CANDIDATE), text = flynn_string(f, FLYNN_TEXT);
	add_str(&h, candidate);
	add_list(&h, flynn_list(f, FLYNN_AGENTS));
	flynn_trace(rule(h), flynn_bool(f, FLYNN_ADDRESSED));
	if (flynn_eq(text, FLYNN_S("agent"))) {
		flynn_str name = flynn_string(f, FLYNN_SENDER_NAME);
		return candidate.n == 0 ? flynn_abstain_because(rule(h), name) : flynn_agent(candidate, rule(h), name);
	}
	if (flynn_eq(text, FLYNN_S("last"))) {
		flynn_str last = FLYNN_NONE, rest = flynn_list(f, FLYNN_AGENTS);
		while (flynn_next(&rest, &last))
			;
		return last.n == 0 ? flynn_abstain_because(rule(h), FLYNN_NONE) : flynn_agent(last, rule(h), FLYNN_NONE);
	}
	if (flynn_eq(text, FLYNN_S("drop")))
		return flynn_drop(rule(h), text);
	if (flynn_eq(text, FLYNN_S("glob"))) {
		int32_t hit = flynn_match(FLYNN_MATCH_GLOB, FLYNN_S("irc:b*"), flynn_string(f, FLYNN_SENDER));
		if (hit != 0)
			return hit < 0 ? FLYNN_FAIL : flynn_drop(rule(h), FLYNN_NONE);
	}
	return flynn_abstain_because(rule(h), whole_text(f));
}

FLYNN_ON_TOOL(f) {
	static const uint8_t strings[] = {FLYNN_AGENT, FLYNN_TOOL, FLYNN_EFFECT, FLYNN_SESSION, FLYNN_ARGS_DIGEST};
	const flynn_str pointers[] = {FLYNN_S(""), FLYNN_S("/command"), FLYNN_S("/list/0"), FLYNN_S("/list/1"),
				      FLYNN_S("/a~1b"), FLYNN_S("/none"), FLYNN_S("bad")};
	uint32_t h = common(f);
	for (uint32_t i = 0; i < sizeof strings; i++)
		add_str(&h, flynn_string(f, strings[i]));
	add_int(&h, flynn_int(f, FLYNN_CALLS_IN_TURN));
	add(&h, flynn_bool(f, FLYNN_SANDBOXED));
	for (uint32_t i = 0; i < sizeof pointers / sizeof *pointers; i++) {
		add_int(&h, flynn_arg_kind(pointers[i]));
		add_lazy(&h, flynn_arg(pointers[i], buf, sizeof buf));
	}
	uint32_t bits = (uint32_t)flynn_int(f, FLYNN_CALLS_IN_TURN) & 7;
	flynn_str sandbox = FLYNN_NONE, labels = flynn_list(f, FLYNN_LABELS);
	if (bits & FLYNN_TOOL_SANDBOX)
		flynn_next(&labels, &sandbox);
	return flynn_answer(bits, rule(h), FLYNN_OUT_SANDBOX, sandbox, flynn_string(f, FLYNN_TEXT));
}
