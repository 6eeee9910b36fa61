package command

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flynnhost/flynn/host/tool/approval"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// readLease reads the argument of /approve: an id, and the scope of the grant.
//
//	ID                          only this call
//	ID session [PATTERN]        again in the session
//	ID always [30d] [PATTERN]   again until it expires
func readLease(arg string) (id string, l approval.Lease, err error) {
	id, rest, _ := strings.Cut(arg, " ")
	if id == "" || strings.Contains(id, "/") {
		return "", l, errors.New("the id is missing")
	}
	scope, rest, _ := strings.Cut(strings.TrimSpace(rest), " ")
	switch strings.ToLower(scope) {
	case "", "once":
		if strings.TrimSpace(rest) != "" {
			return "", l, errors.New("nothing can follow once")
		}
		return id, l, nil
	case "session":
		l.Scope = consent.GrantSession
	case "always":
		l.Scope = consent.GrantStanding
		word, after, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if d, ok := ReadSpan(word); ok {
			l.For, rest = d, after
		}
	default:
		return "", l, fmt.Errorf("%.20q is not once, session or always", scope)
	}
	l.Pattern = strings.TrimSpace(rest)
	return id, l, nil
}

// ReadSpan parses a duration as people type it: 15m, 8h, 30d, 4w.
func ReadSpan(s string) (time.Duration, bool) {
	if len(s) < 2 || len(s) > 6 || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	unit, ok := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour, 'w': 7 * 24 * time.Hour}[s[len(s)-1]]
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 32)
	if !ok || err != nil || n == 0 {
		return 0, false
	}
	return time.Duration(n) * unit, true
}
