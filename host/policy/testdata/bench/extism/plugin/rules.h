/* Twenty rules, first match on channel and the beginning of the sender. */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

#define EXPORT(name) __attribute__((export_name(name)))

typedef struct { const char *at; u32 size; } str;
typedef struct { str channel, prefix, agent; } rule;
#define S(literal) {literal, sizeof(literal) - 1}

static const rule rules[20] = {
	{S("telegram"), S("telegram:100"), S("agent-01")}, {S("telegram"), S("telegram:101"), S("agent-02")},
	{S("telegram"), S("telegram:102"), S("agent-03")}, {S("telegram"), S("telegram:2"), S("agent-04")},
	{S("discord"), S("discord:3000"), S("agent-05")},  {S("discord"), S("discord:3001"), S("agent-06")},
	{S("discord"), S("discord:31"), S("agent-07")},    {S("discord"), S("discord:4"), S("agent-08")},
	{S("slack"), S("slack:U00"), S("agent-09")},       {S("slack"), S("slack:U01"), S("agent-10")},
	{S("slack"), S("slack:U02"), S("agent-11")},       {S("slack"), S("slack:W"), S("agent-12")},
	{S("irc"), S("irc:al"), S("agent-13")},            {S("irc"), S("irc:bo"), S("agent-14")},
	{S("irc"), S("irc:ca"), S("agent-15")},            {S("irc"), S("irc:da"), S("agent-16")},
	{S("whatsapp"), S("whatsapp:+49"), S("agent-17")}, {S("whatsapp"), S("whatsapp:+33"), S("agent-18")},
	{S("web"), S("web:"), S("agent-19")},              {S("matrix"), S("matrix:@"), S("agent-20")},
};

static int prefix(str s, str p) {
	if (s.size < p.size)
		return 0;
	for (u32 i = 0; i < p.size; i++)
		if (s.at[i] != p.at[i])
			return 0;
	return 1;
}

static int matches(const rule *r, str channel, str sender) {
	return channel.size == r->channel.size && prefix(channel, r->channel) && prefix(sender, r->prefix);
}
