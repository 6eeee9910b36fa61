# The policy incident-freeze lets nobody but named owners change anything while an incident is being dealt with.
package flynn

# ---- the configured data ----

default incident := "an incident"

incident := data.incident if data.incident != ""

default from := ""

from := data.from

default until := ""

until := data.until

default action := "deny"

action := data.action

default agents := "*"

agents := data.agents

default tools := "*"

tools := data.tools

default effects := "write execute network"

effects := data.effects

default owners := ""

owners := data.owners

words(text) := {word |
	some word in separated(text)
	word != ""
}

separated(text) := split(replace(replace(text, ",", " "), "\n", " "), " ")

# ---- the freeze ----

now := input.unix_time * 1000000000

is_time("now")

is_time(text) if time.parse_rfc3339_ns(text)

reached("now")

reached(text) if time.parse_rfc3339_ns(text) <= now

wrong contains "from is no time" if not is_time(from)

wrong contains "until is no time" if {
	until != ""
	not is_time(until)
}

wrong contains "until is not behind from" if time.parse_rfc3339_ns(until) <= time.parse_rfc3339_ns(from)

wrong contains "action is neither deny nor ask" if not action in {"deny", "ask"}

wrong contains "effects names one that there is not" if {
	some word in words(effects)
	not word in known_effects
}

wrong contains sprintf("%s names none", [key]) if {
	some key, list in {"agents": agents, "tools": tools, "effects": effects}
	count(words(list)) == 0
}

known_effects := {"write", "execute", "network"}

frozen if {
	reached(from)
	not reached(until)
}

# ---- whom and what it holds for ----

# An effect that this policy has never heard of may change something.
changes if input.effect in words(effects)

changes if not input.effect in known_effects | {"read"}

concerned if {
	some agent in words(agents)
	flynn.glob(agent, input.agent)
	some name in words(tools)
	flynn.glob(name, input.tool)
	changes
}

excepted if {
	input.role == "owner"
	input.sender in words(owners)
}

excepted if {
	input.role == "owner"
	input.account in words(owners)
}

# ---- the answer ----

tool := {"deny": true, "rule": 9, "reason": sprintf("the freeze is configured wrongly: %s", [concat("; ", sort(wrong))])} if {
	from != ""
	count(wrong) > 0
	input.effect != "read"
} else := {action: true, "rule": rules[action], "reason": sprintf("%s: changes are frozen%s", [incident, ending])} if {
	frozen
	concerned
	not excepted
}

rules := {"deny": 1, "ask": 2}

default ending := " until it is over"

ending := sprintf(" until %s", [until]) if until != ""
