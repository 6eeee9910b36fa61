package main

import (
	"strings"

	"github.com/flynnhost/flynn/sdk/policy"
)

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
	case "guest_soft_tokens":
		return "50000"
	case "guest_hard_tokens":
		return "200000"
	case "member_soft_tokens":
		return "500000"
	case "member_hard_tokens":
		return "2000000"
	case "soft_calls":
		return "20"
	}
	return ""
}

// listed reports whether the setting's words have this one.
func listed(key, word string) bool {
	for w := range strings.FieldsSeq(setting(key)) {
		if w == word {
			return true
		}
	}
	return false
}

// The bounds of a limit.
const (
	limited = iota
	unlimited
	unreadable
)

// limitedAs returns the role whose limits apply. A role that this policy does not know, from a later Flynn, counts as the lowest.
func limitedAs(role string) string {
	if role == "owner" || role == "member" {
		return role
	}
	return "guest"
}

// limitOf is the limit of a role, else that of everybody: a whole number, or dollars as millionths. "none" is no limit, and takes
// away that of everybody.
func limitOf(role, name string, dollars bool) (limit int64, key string, state int) {
	key = role + "_" + name
	value := setting(key)
	if value == "" {
		key, value = name, setting(name)
	}
	if value == "" || value == "none" {
		return 0, key, unlimited
	}
	whole, rest, _ := strings.Cut(value, ".")
	digits := whole
	if dollars {
		if len(rest) > 6 {
			return 0, key, unreadable
		}
		digits += rest + "000000"[len(rest):]
	} else if rest != "" || whole != value {
		return 0, key, unreadable
	}
	if whole == "" || len(digits) > 18 {
		return 0, key, unreadable
	}
	for i := range len(digits) {
		c := digits[i]
		if c < '0' || c > '9' {
			return 0, key, unreadable
		}
		limit = 10*limit + int64(c-'0')
	}
	return limit, key, limited
}
