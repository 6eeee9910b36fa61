# The twenty rules as a table, which is how most people would write them in Rego.
package flynn

route := {"agent": matches[0]} if count(matches) > 0

matches := [rule.agent |
	some rule in rules
	rule.channel == input.channel
	startswith(input.sender, rule.prefix)
]

rules := [
	{"channel": "telegram", "prefix": "telegram:100", "agent": "agent-01"},
	{"channel": "telegram", "prefix": "telegram:101", "agent": "agent-02"},
	{"channel": "telegram", "prefix": "telegram:102", "agent": "agent-03"},
	{"channel": "telegram", "prefix": "telegram:2", "agent": "agent-04"},
	{"channel": "discord", "prefix": "discord:3000", "agent": "agent-05"},
	{"channel": "discord", "prefix": "discord:3001", "agent": "agent-06"},
	{"channel": "discord", "prefix": "discord:31", "agent": "agent-07"},
	{"channel": "discord", "prefix": "discord:4", "agent": "agent-08"},
	{"channel": "slack", "prefix": "slack:U00", "agent": "agent-09"},
	{"channel": "slack", "prefix": "slack:U01", "agent": "agent-10"},
	{"channel": "slack", "prefix": "slack:U02", "agent": "agent-11"},
	{"channel": "slack", "prefix": "slack:W", "agent": "agent-12"},
	{"channel": "irc", "prefix": "irc:al", "agent": "agent-13"},
	{"channel": "irc", "prefix": "irc:bo", "agent": "agent-14"},
	{"channel": "irc", "prefix": "irc:ca", "agent": "agent-15"},
	{"channel": "irc", "prefix": "irc:da", "agent": "agent-16"},
	{"channel": "whatsapp", "prefix": "whatsapp:+49", "agent": "agent-17"},
	{"channel": "whatsapp", "prefix": "whatsapp:+33", "agent": "agent-18"},
	{"channel": "web", "prefix": "web:", "agent": "agent-19"},
	{"channel": "matrix", "prefix": "matrix:@", "agent": "agent-20"},
]
