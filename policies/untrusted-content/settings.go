package main

import "github.com/flynnhost/flynn/sdk/policy"

// setting is a value of the policy's data, or its default.
func setting(key string) string {
	if v, ok := policy.Data(key); ok {
		return v
	}
	return builtin(key)
}

// builtin must agree with the [data] of policy.toml; a test compares them. An effect that it does not know is a person's business.
func builtin(key string) string {
	switch key {
	case "untrusted":
		return "web:* network:* sender:guest attachment:* tool:* other:*"
	case "trusted", "free_tools":
		return ""
	case "read", "write", "network":
		return "none"
	}
	return "ask"
}
