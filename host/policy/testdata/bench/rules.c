/* The twenty rules as a policy, read straight from the frame. */
#include "rules.h"

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
		if (matches(&rules[i], channel, sender))
			return answer(&rules[i], i + 1);
	return 0;
}
