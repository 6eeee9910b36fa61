package plugin

import (
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// maxLogin bounds a login code, in bytes.
const maxLogin = 1 << 10

// loginCode is what a person has to scan so that the plugin can sign in; "" for none. It goes to the operator alone: no log, no status.
func loginCode(s *pluginv1.StatusResponse) string {
	code := s.GetLoginCode()
	if s.GetState() != pluginv1.State_STATE_AUTH_REQUIRED || len(code) > maxLogin || !printable(code) {
		return ""
	}
	return code
}

// tellLogin takes over the code that the operator has to scan now.
func (u *unit) tellLogin(code string) {
	u.mu.Lock()
	u.login = code
	u.mu.Unlock()
	u.update(func(s *Status) { s.Login = code != "" })
}

// LoginCode is what the operator has to scan with his device so that an instance can sign in; "" while there is nothing to scan.
// It is a secret as long as it is valid.
func (h *Host) LoginCode(instance string) (string, error) {
	h.mu.Lock()
	u, ok := h.units[instance]
	h.mu.Unlock()
	if !ok {
		return "", noInstance(instance)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.login, nil
}
