package main

import "github.com/flynnhost/flynn/sdk/policy"

// setting is a value of the policy's data, or its default.
func setting(key string) string {
	if v, ok := policy.Data(key); ok {
		return v
	}
	return builtin(key)
}

// builtin must agree with the [data] of policy.toml; a test compares them.
func builtin(key string) string {
	switch key {
	case "tools":
		return "shell.* process.*"
	case "roles":
		return "owner"
	case "otherwise":
		return "deny"
	}
	return ""
}
