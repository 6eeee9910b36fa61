package livetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/plugins/telegram/telegramtest"
)

// finds returns the codes of what flynn doctor finds on a site.
func (s *site) finds() (codes []string, report string) {
	s.t.Helper()
	out, errs, _ := s.flynn("", "doctor", "--json") // it fails if it finds something
	var r struct {
		Findings []struct {
			Code string `json:"code"`
		} `json:"findings"`
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		s.t.Fatalf("%v\n%s%s", err, out, errs)
	}
	for _, f := range r.Findings {
		codes = append(codes, f.Code)
	}
	if strings.Contains(out+errs, telegramtest.Token) {
		s.t.Errorf("it shows the token:\n%s", out)
	}
	return codes, out
}

// found waits until the doctor finds exactly these.
func (s *site) found(what string, codes ...string) {
	s.t.Helper()
	s.eventually("the doctor finds "+what, func() error {
		if got, report := s.finds(); !slices.Equal(got, codes) {
			return fmt.Errorf("found %q, want %q\n%s", got, codes, report)
		}
		return nil
	})
}

// TestDoctorOnTelegram asks the doctor about a bot, with and without a running host.
func TestDoctorOnTelegram(t *testing.T) {
	s, tg := newTelegram(t)
	s.write("flynn.toml", strings.Replace(s.read("flynn.toml"), "[access]", "[access]\ngroups = \"all\"", 1))
	s.found("privacy mode", "channel-privacy-mode")
	tg.SetPrivacy(false)
	s.found("nothing")
	tg.Revoke(true)
	s.found("a revoked token", "channel-token-refused")
	tg.Revoke(false)
	s.start()
	s.found("nothing while it runs")
	tg.Revoke(true)
	tg.Disconnect()
	s.found("a token that is revoked while it runs", "channel-token-refused")
}

// TestDoctorOnWebhooks asks the doctor about a public address that leads to the host, and one that does not any more.
func TestDoctorOnWebhooks(t *testing.T) {
	s, _, p := newHooked(t)
	s.start()
	s.found("nothing")
	p.Server.Close()
	s.found("an address without a proxy", "webhook-unreachable")
}
