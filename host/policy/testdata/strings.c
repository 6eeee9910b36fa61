/* Compares texts of every short length that differ nowhere or in one byte, and drops the message when all is as it should be. */
#include "flynn.h"

#define MOST 40u

static bool right(flynn_str a, flynn_str b, bool same) {
	flynn_str longer = {a.p, a.n + 1};
	return flynn_eq(a, b) == same && flynn_prefix(a, b) == same && flynn_prefix(longer, b) == same && !flynn_eq(longer, b) && !flynn_prefix(b, longer);
}

FLYNN_ON_ROUTE(facts) {
	static char a[MOST + 1], b[MOST + 1];
	(void)facts;
	for (uint32_t i = 0; i <= MOST; i++)
		a[i] = b[i] = (char)(i * 7);
	for (uint32_t n = 0; n <= MOST; n++)
		for (uint32_t at = 0; at < MOST; at++)
			for (uint32_t bit = 0; bit < 8; bit += 7) {
				flynn_str left = {a, n}, other = {b, n};
				if (!right(left, other, true))
					return FLYNN_FAIL;
				b[at] ^= (char)(1u << bit);
				bool ok = right(left, other, at >= n);
				b[at] ^= (char)(1u << bit);
				if (!ok)
					return FLYNN_FAIL;
			}
	return flynn_drop(1, FLYNN_NONE);
}
