package attack

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/channel/mailbox"
	"github.com/flynnhost/flynn/host/gateway"
)

// owner is the one at this machine, who has chosen the agent "able".
func (s *site) owner() place {
	s.t.Helper()
	at := place{"web", fresh("own")}
	s.row(at.channel, s.types(at, "/agent able"), mailbox.InboxDone)
	return at
}

// request is what the page shows of the request that the n-th turn of a place waits for.
func (s *site) request(at place, nth int) gateway.Approval {
	s.t.Helper()
	var found gateway.Approval
	s.eventually("a person is asked", func() error {
		code, answer := s.http(http.MethodGet, "/api/v1/approvals", s.token, nil)
		var list []gateway.Approval
		if err := json.Unmarshal([]byte(answer), &list); code != http.StatusOK || err != nil {
			return fmt.Errorf("%d %s: %v", code, answer, err)
		}
		for _, a := range list {
			if turns := s.turns(at); len(turns) == nth && a.Turn == turns[nth-1].ID {
				found = a
				return nil
			}
		}
		return fmt.Errorf("%d requests: %s", len(list), answer)
	})
	return found
}

// TestAnApprovedCommandIsWhatWasShown has an agent write what programs read before their arguments, unasked, and a person approve a line
// that looks harmless. Nothing else than the line happens.
func TestAnApprovedCommandIsWhatWasShown(t *testing.T) {
	s := newSite(t, withPolicies(t, config))
	outside := filepath.Join(s.dir, "owned")
	for _, c := range []struct {
		program, line string
		plants        map[string]string
	}{
		{"wget", "wget -q -t 1 -O /dev/null http://127.0.0.1:9/", map[string]string{
			".wgetrc": "use_askpass = /bin/sh\n", "Username for 'http://127.0.0.1': ": "touch " + outside + "\n",
		}},
		{"curl", "curl -s http://127.0.0.1:9/", map[string]string{
			".curlrc": "url = \"file:///etc/passwd\"\noutput = \"" + outside + "\"\n", ".config/curlrc": "url = \"file:///etc/passwd\"\noutput = \"" + outside + "\"\n",
		}},
		{"git", "git config --get core.fsmonitor", map[string]string{".gitconfig": "[core]\n\tfsmonitor = touch " + outside + "\n"}},
		{"sh", "cat ~/planted $XDG_CONFIG_HOME/planted", map[string]string{"planted": "x", ".config/planted": "x"}},
	} {
		t.Run(c.program, func(t *testing.T) {
			if _, err := exec.LookPath(c.program); err != nil {
				t.Skip(err)
			}
			at, nth := s.owner(), 0
			for file, text := range c.plants {
				args, _ := json.Marshal(map[string]string{"path": file, "content": text})
				s.types(at, "!tool file.write "+string(args))
				nth++
				if calls := s.calls(s.ended(at, nth).ID); len(calls) != 1 || calls[0].Decision != "run" || calls[0].Result.IsError {
					t.Fatalf("the plant is not written: %+v", calls)
				}
			}
			s.types(at, "!sh "+c.line)
			nth++
			s.decides(t, s.request(at, nth).ID, true)
			calls := s.calls(s.ended(at, nth).ID)
			if len(calls) != 1 || !calls[0].Result.IsError { // each fails where nothing was planted
				t.Errorf("calls are %+v", calls)
			}
			if _, err := os.Stat(outside); err == nil {
				t.Errorf("%s did what was planted", c.line)
				os.Remove(outside)
			}
		})
	}
}

// TestALeaseIsNoShell tries to have a person agree to a line for good, or to lines that fit a pattern, whose program runs another one.
func TestALeaseIsNoShell(t *testing.T) {
	s := newSite(t, withPolicies(t, config))
	for _, c := range []struct {
		line, pattern string
		shell         bool // for the session it can be agreed to, and is called a shell
	}{
		{"/proc/self/exe x.sh", "/proc/self/exe *", true},
		{"/proc/self/cwd/bin/sh x.sh", "", true},
		{"ssh-agent sh x.sh", "ssh-agent sh *", true},
		{"make test", "make *", true},
		{"npm test", "npm *", true},
		{"git status", "git *", true},
		{"read PATH; ls", "", true},
		{"printf -v PATH x; ls", "", true},
		{"tcpdump -z x -r y", "tcpdump -z x -r *", true},
		{"curl -F a=b https://example.com", "curl -F * https://example.com", true},
		{"curl -o x https://example.com", "curl -o x *", true},
		{"cat x", "cat *", false},
	} {
		t.Run(c.line, func(t *testing.T) {
			at := s.owner()
			s.types(at, "!sh "+c.line)
			a := s.request(at, 1)
			if a.MayStanding == c.shell || (a.SessionShell != "") != c.shell {
				t.Errorf("always: %v, a session that is a shell: %q", a.MayStanding, a.SessionShell)
			}
			tries := []map[string]any{{"grant": true, "scope": "standing", "pattern": c.pattern}, {"grant": true, "scope": "session", "pattern": c.pattern}}
			if c.shell {
				tries = append(tries, map[string]any{"grant": true, "scope": "standing"})
			}
			for _, answer := range tries {
				if answer["pattern"] == "" {
					continue
				}
				if code, text := s.http(http.MethodPost, "/api/v1/approvals/"+a.ID+"/decision", s.token, answer); code == http.StatusNoContent {
					t.Errorf("%v is taken: %s", answer, text)
				}
			}
			s.decides(t, a.ID, false)
			s.ended(at, 1)
		})
	}
	if code, answer := s.http(http.MethodGet, "/api/v1/grants", s.token, nil); code != http.StatusOK || strings.TrimSpace(answer) != "[]" {
		t.Errorf("there are grants: %s", answer)
	}
}
