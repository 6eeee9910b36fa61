/* Twenty rules, first match on channel and the beginning of the sender: the twin of rules-go. */
#include "flynn.h"

typedef struct {
	flynn_str channel, prefix, agent;
} rule;

#define S(literal) {(literal), sizeof(literal) - 1}

static const rule rules[] = {
	{S("telegram"), S("telegram:100"), S("agent-01")},  {S("telegram"), S("telegram:101"), S("agent-02")},
	{S("telegram"), S("telegram:102"), S("agent-03")},  {S("telegram"), S("telegram:2"), S("agent-04")},
	{S("discord"), S("discord:3000"), S("agent-05")},   {S("discord"), S("discord:3001"), S("agent-06")},
	{S("discord"), S("discord:31"), S("agent-07")},	    {S("discord"), S("discord:4"), S("agent-08")},
	{S("slack"), S("slack:U00"), S("agent-09")},	    {S("slack"), S("slack:U01"), S("agent-10")},
	{S("slack"), S("slack:U02"), S("agent-11")},	    {S("slack"), S("slack:W"), S("agent-12")},
	{S("irc"), S("irc:al"), S("agent-13")},		    {S("irc"), S("irc:bo"), S("agent-14")},
	{S("irc"), S("irc:ca"), S("agent-15")},		    {S("irc"), S("irc:da"), S("agent-16")},
	{S("whatsapp"), S("whatsapp:+49"), S("agent-17")},  {S("whatsapp"), S("whatsapp:+33"), S("agent-18")},
	{S("web"), S("web:"), S("agent-19")},		    {S("matrix"), S("matrix:@"), S("agent-20")},
};

FLYNN_ON_ROUTE(f) {
	flynn_str channel = flynn_string(f, FLYNN_CHANNEL), sender = flynn_string(f, FLYNN_SENDER);
	for (uint32_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (flynn_eq(rules[i].channel, channel) && flynn_prefix(sender, rules[i].prefix))
			return flynn_agent(rules[i].agent, i + 1, FLYNN_NONE);
	return flynn_abstain();
}
