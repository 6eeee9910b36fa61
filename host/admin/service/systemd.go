package service

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// systemd is that of the machine, or that of a user.
type systemd struct {
	Config
	scope []string // the arguments that choose between them
}

var _ manager = (*systemd)(nil)

func newSystemd(c Config) *systemd {
	s := &systemd{Config: c}
	switch {
	case c.System:
		s.Folder = cmp.Or(c.Folder, "/etc/systemd/system")
	default:
		s.scope = []string{"--user"}
		s.Folder = cmp.Or(c.Folder, filepath.Join(cmp.Or(c.Getenv("XDG_CONFIG_HOME"), filepath.Join(c.Home, ".config")), "systemd", "user"))
	}
	return s
}

func (s *systemd) systemctl(ctx context.Context, args ...string) (string, error) {
	return command(ctx, "systemctl", append(append([]string{}, s.scope...), args...)...)
}

func (s *systemd) run(ctx context.Context, args ...string) error {
	_, err := s.systemctl(ctx, args...)
	return err
}

func (s *systemd) unit() string { return s.Name + ".service" }
func (s *systemd) file() string { return filepath.Join(s.Folder, s.unit()) }

func (s *systemd) render(spec Spec) (string, error) { return spec.Unit() }

func (s *systemd) answers(ctx context.Context) error {
	return s.run(ctx, "show", "--property=Version")
}

func (s *systemd) enable(ctx context.Context) error {
	if err := s.run(ctx, "daemon-reload"); err != nil {
		return err
	}
	return s.run(ctx, "enable", s.unit())
}

func (s *systemd) disable(ctx context.Context) error { return s.run(ctx, "disable", "--now", s.unit()) }
func (s *systemd) forget(ctx context.Context) error  { return s.run(ctx, "daemon-reload") }
func (s *systemd) stop(ctx context.Context) error    { return s.run(ctx, "stop", s.unit()) }
func (s *systemd) start(ctx context.Context) error   { return s.begin(ctx, "start") }
func (s *systemd) restart(ctx context.Context) error { return s.begin(ctx, "restart") }

// begin starts the service; if it does not come up, the error says what it logged last.
func (s *systemd) begin(ctx context.Context, verb string) error {
	err := s.run(ctx, verb, s.unit())
	if err == nil {
		return nil
	}
	journal := append(append([]string{}, s.scope...), "--unit="+s.unit(), "--lines=3", "--no-pager", "--output=cat")
	if last, failed := command(ctx, "journalctl", journal...); failed == nil && strings.TrimSpace(last) != "" {
		return fmt.Errorf("the service did not start; its last words: %s; more: %s", strings.Join(strings.Fields(last), " "), s.log())
	}
	return err
}

func (s *systemd) log() string {
	return strings.Join(append(append([]string{"journalctl"}, s.scope...), "--unit="+s.Name, "--follow"), " ")
}

func (s *systemd) state(ctx context.Context) (st State, err error) {
	text, err := s.systemctl(ctx, "show", s.unit(), "--property=ActiveState,Result,UnitFileState,MainPID,ActiveEnterTimestamp,StateChangeTimestamp",
		"--timestamp=unix")
	if err != nil {
		return st, err
	}
	about := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		about[key] = value
	}
	st.AtBoot = about["UnitFileState"] == "enabled"
	since := about["StateChangeTimestamp"]
	switch about["ActiveState"] {
	case "active", "reloading":
		st.State, since = Running, about["ActiveEnterTimestamp"]
		st.PID, _ = strconv.Atoi(about["MainPID"])
	case "failed":
		st.State, st.Detail = Failed, about["Result"]
	case "activating", "deactivating":
		st.State, st.Detail = Busy, about["ActiveState"]
	default:
		st.State = Stopped
	}
	if n, err := strconv.ParseInt(strings.TrimPrefix(since, "@"), 10, 64); err == nil && n > 0 {
		st.Since = time.Unix(n, 0)
	}
	return st, nil
}
