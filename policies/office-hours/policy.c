/*
 * office-hours routes by what a message says and by when it comes:
 *
 *   rule 1  a mentioned word names an agent       data: mentions = "@coder=coder deploy=ops"
 *   rule 2  inside office hours                   data: inside = "helpdesk"
 *   rule 3  outside office hours                  data: outside = "night"
 *
 * Hours are data too: days = "mon-fri", from = "09:00", to = "17:00", in the host's zone. Where no rule has an
 * agent the policy abstains; data that makes no sense fails it, so that nobody is routed by half a rule.
 */
#include "flynn.h"

enum { RULE_MENTION = 1, RULE_INSIDE, RULE_OUTSIDE };
enum { MINUTES = 24 * 60, DAYS = 7 };

/* ---- configured data ---- */

typedef enum { ABSENT, PRESENT, BROKEN } presence;

/* setting reads one value into buf. An empty value counts as absent. */
static presence setting(flynn_str key, char *buf, uint32_t cap, flynn_str *value) {
	int32_t n = flynn_data(key, buf, cap);
	if (n <= 0)
		return ABSENT;
	*value = (flynn_str){buf, (uint32_t)n};
	return (uint32_t)n <= cap ? PRESENT : BROKEN;
}

static int64_t fail(flynn_str why) {
	flynn_log(3, why);
	return FLYNN_FAIL;
}

/* ---- text ---- */

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* Bytes of other alphabets count as letters: "deploy" is not a word of "déploy". */
static bool is_word(char c) {
	char l = lower(c);
	return (l >= 'a' && l <= 'z') || (c >= '0' && c <= '9') || c == '_' || (uint8_t)c >= 0x80;
}

static bool same_at(flynn_str text, uint32_t at, flynn_str word) {
	for (uint32_t i = 0; i < word.n; i++)
		if (lower(text.p[at + i]) != lower(word.p[i]))
			return false;
	return true;
}

/* word_at finds a whole word at the beginning of one; both are in lower case. */
static bool word_at(flynn_str text, uint32_t at, flynn_str word) {
	uint32_t end = at + word.n;
	if (word.n > text.n - at)
		return false;
	for (uint32_t i = 0; i < word.n; i++)
		if (text.p[at + i] != word.p[i])
			return false;
	return end == text.n || !is_word(text.p[end]);
}

/* searched_text is the beginning of the message's text, as much as the frame holds, in lower case. Whoever pastes a
 * log must not spend the policy's fuel on it. */
static flynn_str searched_text(const flynn_facts *facts) {
	static char searched[FLYNN_TEXT_IN_FRAME];
	flynn_str text = flynn_string(facts, FLYNN_TEXT);
	uint32_t n = text.n < sizeof searched ? text.n : sizeof searched;
	for (uint32_t i = 0; i < n; i++)
		searched[i] = lower(text.p[i]);
	return (flynn_str){searched, n};
}

/* ---- rule 1: mentions ---- */

/* pair takes the next "word=agent" off the list; 0 at the end, -1 when it is not one. */
static int pair(flynn_str *list, flynn_str *word, flynn_str *agent) {
	uint32_t i = 0, eq = 0;
	while (i < list->n && list->p[i] == ' ')
		i++;
	uint32_t from = i;
	for (; i < list->n && list->p[i] != ' '; i++)
		if (list->p[i] == '=' && eq == 0)
			eq = i;
	if (i == from)
		return 0;
	if (eq <= from || eq + 1 == i)
		return -1;
	*word = (flynn_str){list->p + from, eq - from};
	*agent = (flynn_str){list->p + eq + 1, i - eq - 1};
	*list = (flynn_str){list->p + i, list->n - i};
	return 1;
}

enum { MAX_MENTIONS = 64 };

typedef struct {
	flynn_str word, agent;
} mention;

/* read_mentions reads the configured pairs; -1 when the data is broken. All of it is read on every message: a slip
 * shows on the first one, not on the unlucky one. */
static int read_mentions(mention *list) {
	static char buf[4096];
	flynn_str rest;
	presence p = setting(FLYNN_S("mentions"), buf, sizeof buf, &rest);
	if (p != PRESENT)
		return p == BROKEN ? -1 : 0;
	for (int n = 0;; n++) {
		mention m;
		int more = pair(&rest, &m.word, &m.agent);
		if (more <= 0)
			return more < 0 ? -1 : n;
		if (n == MAX_MENTIONS)
			return -1;
		for (char *c = buf + (m.word.p - buf); c < m.word.p + m.word.n; c++)
			*c = lower(*c);
		list[n] = m;
	}
}

/* first_mention is the first of the pairs whose word the text has, or n. It goes over the text once: "@coder" is not in
 * "bob@coder", so that a word can only stand where one begins. */
static int first_mention(flynn_str text, const mention *list, int n) {
	bool begins[256] = {false};
	for (int k = 0; k < n; k++)
		begins[(uint8_t)list[k].word.p[0]] = true;
	int best = n;
	bool inside = false;
	for (uint32_t at = 0; at < text.n; at++) {
		bool before = inside;
		inside = is_word(text.p[at]);
		if (before || !begins[(uint8_t)text.p[at]])
			continue;
		for (int k = 0; k < best; k++)
			if (word_at(text, at, list[k].word))
				best = k;
	}
	return best;
}

/* ---- rules 2 and 3: hours ---- */

/* clock reads "HH:MM"; "24:00" is the end of the day. -1 when it is no time. */
static int32_t clock(flynn_str s) {
	if (s.n != 5 || s.p[2] != ':')
		return -1;
	for (uint32_t i = 0; i < 5; i++)
		if (i != 2 && (s.p[i] < '0' || s.p[i] > '9'))
			return -1;
	int32_t hour = (s.p[0] - '0') * 10 + s.p[1] - '0', minute = (s.p[3] - '0') * 10 + s.p[4] - '0';
	if (minute > 59 || hour * 60 + minute > MINUTES)
		return -1;
	return hour * 60 + minute;
}

/* weekday reads a three-letter English day; 0 is Sunday, -1 is none. */
static int32_t weekday(flynn_str list, uint32_t at) {
	static const char names[] = "sunmontuewedthufrisat";
	if (at + 3 > list.n)
		return -1;
	for (int32_t d = 0; d < DAYS; d++)
		if (same_at(list, at, (flynn_str){names + 3 * d, 3}))
			return d;
	return -1;
}

/* days reads "mon-fri" or "mon,wed,fri-sun" into a set of bits; 0 when it is neither. */
static uint32_t days(flynn_str list) {
	uint32_t set = 0, at = 0;
	for (;;) {
		int32_t first = weekday(list, at), last = first;
		at += 3;
		if (first >= 0 && at < list.n && list.p[at] == '-') {
			last = weekday(list, at + 1);
			at += 4;
		}
		if (first < 0 || last < 0)
			return 0;
		for (int32_t d = first;; d = (d + 1) % DAYS) {
			set |= 1u << d;
			if (d == last)
				break;
		}
		if (at == list.n)
			return set;
		if (list.p[at++] != ',')
			return 0;
	}
}

typedef struct {
	uint32_t days;
	int32_t from, to;
} hours;

/* read_hours: PRESENT, ABSENT when no hours are configured, or BROKEN. */
static presence read_hours(hours *h) {
	char buf[3][64];
	flynn_str from, to, list = FLYNN_S("mon-fri");
	presence f = setting(FLYNN_S("from"), buf[0], sizeof buf[0], &from);
	presence t = setting(FLYNN_S("to"), buf[1], sizeof buf[1], &to);
	presence d = setting(FLYNN_S("days"), buf[2], sizeof buf[2], &list);
	if (f == ABSENT && t == ABSENT && d == ABSENT)
		return ABSENT;
	if (f != PRESENT || t != PRESENT || d == BROKEN)
		return BROKEN;
	*h = (hours){days(list), clock(from), clock(to)};
	return h->days == 0 || h->from < 0 || h->to < 0 ? BROKEN : PRESENT;
}

/* open_at: a span over midnight belongs to the day on which it began; from = to is the whole day. */
static bool open_at(const hours *h, int32_t day, int32_t minute) {
	bool today = h->days >> day & 1, yesterday = h->days >> (day + DAYS - 1) % DAYS & 1;
	if (h->from == h->to)
		return today;
	if (h->from < h->to)
		return today && minute >= h->from && minute < h->to;
	return (today && minute >= h->from) || (yesterday && minute < h->to);
}

static int64_t by_hours(const flynn_facts *facts) {
	hours h;
	char buf[256];
	flynn_str agent;
	presence p = read_hours(&h);
	if (p == BROKEN)
		return fail(FLYNN_S("days, from or to is not like \"mon-fri\", \"09:00\" and \"17:00\""));
	int64_t day = flynn_int(facts, FLYNN_WEEKDAY), minute = flynn_int(facts, FLYNN_MINUTE_OF_DAY);
	if (p == ABSENT || day < 0 || day >= DAYS || minute < 0 || minute >= MINUTES)
		return flynn_abstain();
	bool open = open_at(&h, (int32_t)day, (int32_t)minute);
	p = setting(open ? FLYNN_S("inside") : FLYNN_S("outside"), buf, sizeof buf, &agent);
	if (p == BROKEN)
		return fail(FLYNN_S("inside or outside is longer than an agent's name"));
	flynn_trace(RULE_INSIDE, open && p == PRESENT);
	flynn_trace(RULE_OUTSIDE, !open && p == PRESENT);
	if (p == ABSENT)
		return flynn_abstain();
	return open ? flynn_agent(agent, RULE_INSIDE, FLYNN_S("inside office hours"))
		    : flynn_agent(agent, RULE_OUTSIDE, FLYNN_S("outside office hours"));
}

FLYNN_ON_ROUTE(facts) {
	static mention list[MAX_MENTIONS];
	int n = read_mentions(list);
	if (n < 0)
		return fail(FLYNN_S("mentions is not like \"@coder=coder deploy=ops\", or has more than 64 pairs"));
	int k = n > 0 ? first_mention(searched_text(facts), list, n) : n;
	flynn_trace(RULE_MENTION, k < n);
	if (k < n)
		return flynn_agent(list[k].agent, RULE_MENTION, FLYNN_S("mentioned in the text"));
	return by_hours(facts);
}
