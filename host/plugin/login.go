package plugin

import (
	"strings"
	"unicode"

	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// maxLogin bounds a login code, in bytes.
const maxLogin = 1 << 10

// loginCode is the code that a person has to scan so that the plugin can sign in; "" for none. Only the operator may see it: it must not
// get into a log or a status.
func loginCode(s *pluginv1.StatusResponse) string {
	code := s.GetLoginCode()
	if s.GetState() != pluginv1.State_STATE_AUTH_REQUIRED || len(code) > maxLogin || strings.ContainsFunc(code, unicode.IsControl) {
		return ""
	}
	return code
}

// tellLogin sets the code that the operator has to scan now.
func (sup *supervisor) tellLogin(code string) {
	sup.mu.Lock()
	sup.login = code
	sup.mu.Unlock()
	sup.update(func(s *Status) { s.Login = code != "" })
}

// LoginCode is the code that the operator has to scan with a device so that an instance can sign in; "" if there is none. It is a secret
// as long as it is valid.
func (h *Host) LoginCode(instance string) (string, error) {
	sup, err := h.supervisor(instance)
	if err != nil {
		return "", err
	}
	sup.mu.Lock()
	defer sup.mu.Unlock()
	return sup.login, nil
}
