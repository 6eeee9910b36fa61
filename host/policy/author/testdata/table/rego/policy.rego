# The table policy; ../README.md says what it does.
package flynn

# ---- the question ----

route_verb := split(question, " ")[0]

question := split(input.text, "\n")[0]

tool_question := q if {
	q := input.args.ask
	is_string(q)
} else := ""

tool_verb := split(tool_question, " ")[0]

operand(q) := trim_prefix(q, concat("", [split(q, " ")[0], " "])) if contains(q, " ")

operand(q) := "" if not contains(q, " ")

matched("glob", pattern, s) := flynn.glob(pattern, s)

matched("cidr", pattern, s) := flynn.cidr(pattern, s)

matched("re2", pattern, s) := flynn.re2(pattern, s)

matched("domain", pattern, s) := flynn.domain(pattern, s)

matching := {"glob", "cidr", "re2", "domain"}

# ---- values as text ----

shown(v) := v if is_string(v)

shown(v) := json.marshal(v) if is_number(v)

shown(v) := json.marshal(v) if is_boolean(v)

shown(v) := concat("", [concat("", ["[", item, "]"]) | some item in v]) if is_array(v)

fact(name) := input.text if name == "full_text"

fact(name) := shown(input[name]) if {
	name in object.keys(input)
	name != "args"
}

else := "unknown" if name != "full_text"

# Keys of data that are known only at run time would make the rules depend on themselves.
configured["key"] := data.key

configured["empty"] := data.empty

configured["a key"] := data["a key"]

configured["list"] := data.list

configured["Ключ"] := data["Ключ"]

datum(key) := concat("", ["+", configured[key]]) if configured[key]

else := "-"

# JSON text with its keys in order, as deep as the table goes.
flat(v) := json.marshal(v)

text1(v) := braced([concat(":", [json.marshal(k), flat(v[k])]) | some k in sort(object.keys(v))]) if is_object(v)

else := bracketed([flat(item) | some item in v]) if is_array(v)

else := flat(v)

text2(v) := braced([concat(":", [json.marshal(k), text1(v[k])]) | some k in sort(object.keys(v))]) if is_object(v)

else := bracketed([text1(item) | some item in v]) if is_array(v)

else := flat(v)

braced(list) := concat("", ["{", concat(",", list), "}"])

bracketed(list) := concat("", ["[", concat(",", list), "]"])

# ---- arguments by JSON Pointer ----

steps(pointer) := [] if pointer == ""

steps(pointer) := [replace(replace(s, "~1", "/"), "~0", "~") |
	some i, s in split(pointer, "/")
	i > 0
] if {
	startswith(pointer, "/")
}

step(p) := p if is_string(p)

step(p) := format_int(p, 10) if is_number(p)

found(pointer) := [value |
	wanted := steps(pointer)
	walk(input.args, [path, value])
	count(path) == count(wanted)
	[step(p) | some p in path] == wanted
]

arg(pointer) := v if {
	[v] := found(pointer)
	is_string(v)
}

kinds := {"null": "null", "boolean": "bool", "number": "number", "string": "string", "array": "array", "object": "object"}

show_arg(pointer) := "absent:" if found(pointer) == []

show_arg(pointer) := concat("", ["string:", arg(pointer)])

show_arg(pointer) := concat("", [kinds[type_name(v)], ":", text2(v)]) if {
	[v] := found(pointer)
	not is_string(v)
}

# ---- what both kinds answer ----

neutral("show", o) := {"rule": 1, "reason": fact(o)}

neutral("data", o) := {"rule": 3, "reason": datum(o)}

neutral("rule", o) := {"rule": min([to_number(o), 16777215])}

# ---- routes ----

route := object.union({"abstain": true}, neutral(route_verb, operand(question))) if {
	route_verb in {"show", "data", "rule"}
} else := {"drop": true, "rule": 4} if {
	matched(route_verb, operand(question), input.sender_name)
} else := {"abstain": true, "rule": 4} if {
	route_verb in matching
} else := {"agent": operand(question), "rule": 5, "reason": input.sender_name} if {
	route_verb == "agent"
} else := {"drop": true, "rule": 5, "reason": operand(question)} if {
	route_verb == "drop"
} else := {"abstain": true, "rule": 5, "reason": operand(question)} if {
	route_verb == "abstain"
} else := {"drop": true, "rule": 10, "reason": "banned on the platform"} if {
	"banned" in input.sender_roles
} else := {"drop": true, "rule": 11, "reason": "an edit that calls nobody"} if {
	input.edited
	not input.mentioned
} else := {"agent": "ops", "rule": 12, "reason": "an attachment to look at"} if {
	some type in input.attachment_types
	startswith(type, "application/x-")
} else := {"agent": "frugal", "rule": 13, "reason": "a session that has used much"} if {
	used_or_old
} else := {"agent": "ops", "rule": 14, "reason": "a thread of ops"} if {
	input.conversation_kind == "thread"
	input.parent == "c-ops"
} else := {"agent": "coder", "rule": 15, "reason": "the owner's own frontend"} if {
	input.role == "owner"
	input.door in {"web", "terminal"}
} else := {"agent": "night", "rule": 16, "reason": "out of hours"} if {
	input.role == "guest"
	out_of_hours
} else := {"agent": "staff", "rule": 17, "reason": "an account of the house"} if {
	flynn.glob("*@example.com", input.account)
} else := {"agent": "fresh", "rule": 18, "reason": "a long session"} if {
	input.turns >= 10
} else := {"drop": true, "rule": 19, "reason": "nobody called"} if {
	not input.addressed
}

used if input.session_cost > 5000000

used if input.session_tokens > 1000000

used_or_old if used

used_or_old if input.session_age > 86400

out_of_hours if input.weekday in {0, 6}

out_of_hours if input.minute_of_day < 540

out_of_hours if input.minute_of_day >= 1020

# ---- tools ----

tool := neutral(tool_verb, operand(tool_question)) if {
	tool_verb in {"show", "data", "rule"}
} else := {"deny": true, "rule": 4} if {
	matched(tool_verb, operand(tool_question), subject)
} else := {"rule": 4} if {
	tool_verb in matching
} else := {"rule": 2, "reason": show_arg(operand(tool_question))} if {
	tool_verb == "arg"
} else := object.union(restricted(split(operand(tool_question), " ")), {"rule": 6, "reason": stated}) if {
	tool_verb == "restrict"
} else := joined if {
	count(demands) > 0
}

default subject := ""

subject := arg("/subject")

default stated := ""

stated := arg("/reason")

restricted(words) := object.union_n(array.concat([{}], [demand |
	some word in words
	demand := wanted(word)
])) # in Wasm the union of no object is undefined

wanted("deny") := {"deny": true}

wanted("ask") := {"ask": true}

wanted("sandbox") := {"sandbox": true}

wanted(word) := {"sandbox": split(word, "=")[1]} if startswith(word, "sandbox=")

# Several restrictions as a set would be joined by the host, with all their reasons; the table wants the first one's.
joined := object.union(object.union_n([d.what | some d in demands]), {"rule": first, "reason": reason}) if {
	first := min({d.rule | some d in demands})
	some d in demands
	d.rule == first
	reason := d.reason
}

demands contains {"rule": 20, "what": {"deny": true}, "reason": "interns only read"} if {
	input.agent == "intern"
	input.effect != "read"
}

demands contains {"rule": 21, "what": {"ask": true}, "reason": "after the web a person looks at commands"} if {
	input.effect == "execute"
	some label in input.labels
	startswith(label, "web:")
}

demands contains {"rule": 22, "what": {"sandbox": "strict"}, "reason": "commands run in a sandbox"} if {
	input.effect == "execute"
	not input.sandboxed
}

demands contains {"rule": 23, "what": {"ask": true}, "reason": "many calls in one turn"} if input.calls_in_turn >= 20

demands contains {"rule": 24, "what": {"deny": true}, "reason": "not the machine's settings"} if flynn.glob("/etc/*", arg("/path"))

demands contains {"rule": 25, "what": {"ask": true}, "reason": "a host that nobody knows"} if {
	input.effect == "network"
	not known_host
}

known_host if flynn.domain("example.com", arg("/host"))

demands contains {"rule": 26, "what": {"deny": true}, "reason": "inside the house"} if flynn.cidr("10.0.0.0/8", arg("/addr"))

demands contains {"rule": 27, "what": {"deny": true}, "reason": "only the owner kills"} if {
	input.tool == "process.kill"
	input.role != "owner"
}

demands contains {"rule": 28, "what": {"ask": true}, "reason": "a session that has used much"} if used

demands contains {"rule": 29, "what": {"deny": true}, "reason": "the second item is secret"} if arg("/items/1/name") == "secret"

demands contains {"rule": 30, "what": {"ask": true}, "reason": "by force"} if input.args.force == true

demands contains {"rule": 31, "what": {"deny": true}, "reason": "muted on the platform"} if "muted" in input.sender_roles

demands contains {"rule": 32, "what": {"ask": true}, "reason": "the message was changed"} if input.edited
