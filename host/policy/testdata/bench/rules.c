/* Twenty rules, first match on channel and the beginning of the sender, read straight from the frame. */
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

static u64 region[8192];

EXPORT("flynn_abi") u32 flynn_abi(void) { return 1 << 16; }
EXPORT("flynn_buffer") void *flynn_buffer(u32 min) { return min <= sizeof region ? region : 0; }

static str field(u16 id) {
	const u8 *frame = (const u8 *)region;
	u32 n = *(const u16 *)(frame + 6);
	for (const u8 *e = frame + 16; n--; e += 12)
		if (*(const u16 *)e == id)
			return (str){(const char *)frame + *(const u32 *)(e + 4), *(const u32 *)(e + 8)};
	return (str){0, 0};
}

static int prefix(str s, str p) {
	if (s.size < p.size)
		return 0;
	for (u32 i = 0; i < p.size; i++)
		if (s.at[i] != p.at[i])
			return 0;
	return 1;
}

static i64 answer(const rule *r, u32 number) {
	u8 *out = (u8 *)region;
	u32 total = 16 + 12 + r->agent.size;
	*(u32 *)out = 0x314e4c46;
	*(u16 *)(out + 4) = 3;
	*(u16 *)(out + 6) = 1;
	*(u32 *)(out + 8) = total;
	*(u32 *)(out + 12) = 0;
	*(u16 *)(out + 16) = 64;
	*(u16 *)(out + 18) = 1;
	*(u32 *)(out + 20) = 28;
	*(u32 *)(out + 24) = r->agent.size;
	for (u32 i = 0; i < r->agent.size; i++)
		out[28 + i] = (u8)r->agent.at[i];
	return (i64)total << 32 | number << 8 | 1;
}

EXPORT("flynn_route") i64 flynn_route(u32 len) {
	str channel = field(1), sender = field(5);
	for (u32 i = 0; i < 20; i++)
		if (channel.size == rules[i].channel.size && prefix(channel, rules[i].channel) && prefix(sender, rules[i].prefix))
			return answer(&rules[i], i + 1);
	return 0;
}
