# Twenty rules, first match on channel and the beginning of the sender.
package flynn

route := {"agent": "agent-01"} if {
	input.channel == "telegram"
	startswith(input.sender, "telegram:100")
} else := {"agent": "agent-02"} if {
	input.channel == "telegram"
	startswith(input.sender, "telegram:101")
} else := {"agent": "agent-03"} if {
	input.channel == "telegram"
	startswith(input.sender, "telegram:102")
} else := {"agent": "agent-04"} if {
	input.channel == "telegram"
	startswith(input.sender, "telegram:2")
} else := {"agent": "agent-05"} if {
	input.channel == "discord"
	startswith(input.sender, "discord:3000")
} else := {"agent": "agent-06"} if {
	input.channel == "discord"
	startswith(input.sender, "discord:3001")
} else := {"agent": "agent-07"} if {
	input.channel == "discord"
	startswith(input.sender, "discord:31")
} else := {"agent": "agent-08"} if {
	input.channel == "discord"
	startswith(input.sender, "discord:4")
} else := {"agent": "agent-09"} if {
	input.channel == "slack"
	startswith(input.sender, "slack:U00")
} else := {"agent": "agent-10"} if {
	input.channel == "slack"
	startswith(input.sender, "slack:U01")
} else := {"agent": "agent-11"} if {
	input.channel == "slack"
	startswith(input.sender, "slack:U02")
} else := {"agent": "agent-12"} if {
	input.channel == "slack"
	startswith(input.sender, "slack:W")
} else := {"agent": "agent-13"} if {
	input.channel == "irc"
	startswith(input.sender, "irc:al")
} else := {"agent": "agent-14"} if {
	input.channel == "irc"
	startswith(input.sender, "irc:bo")
} else := {"agent": "agent-15"} if {
	input.channel == "irc"
	startswith(input.sender, "irc:ca")
} else := {"agent": "agent-16"} if {
	input.channel == "irc"
	startswith(input.sender, "irc:da")
} else := {"agent": "agent-17"} if {
	input.channel == "whatsapp"
	startswith(input.sender, "whatsapp:+49")
} else := {"agent": "agent-18"} if {
	input.channel == "whatsapp"
	startswith(input.sender, "whatsapp:+33")
} else := {"agent": "agent-19"} if {
	input.channel == "web"
	startswith(input.sender, "web:")
} else := {"agent": "agent-20"} if {
	input.channel == "matrix"
	startswith(input.sender, "matrix:@")
}
