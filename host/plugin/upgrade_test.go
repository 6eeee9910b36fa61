//go:build unix

package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flynnhost/flynn/host/install/folder"
)

func TestUpgradesLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	for name, exclusive := range map[string]bool{"exclusive": true, "parallel": false} {
		t.Run(name, func(t *testing.T) {
			s, p, st := commute(t, exclusive, 500*time.Millisecond)
			stop := p.rush(2 * time.Millisecond)
			for i := range 4 {
				version := []string{"1.1.0", "1.0.0"}[i%2]
				if err := s.move(version); err != nil {
					t.Fatal(err)
				}
				if got := s.status("line"); got.Version != version {
					t.Errorf("after the move to %s: %+v", version, got)
				}
				s.until("ready again", func() bool { return s.status("line").State == Ready })
			}
			n := stop()
			st.settled(t, p, n)
			p.mu.Lock()
			defer p.mu.Unlock()
			for key, times := range p.sends {
				if times != 1 {
					t.Errorf("%s was sent %d times", key, times)
				}
			}
			if len(p.sends) != n {
				t.Errorf("%d of %d messages were answered", len(p.sends), n)
			}
			if exclusive && p.most != 1 || !exclusive && p.most != 2 {
				t.Errorf("%d connections at a time", p.most)
			}
			if st.together != 1 {
				t.Errorf("%d handlers at a time", st.together)
			}
			t.Logf("%d messages, %d came again", n, st.repeats)
		})
	}
}

func TestBadVersionsAreGivenUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, version, says string }{
		{"crashes in its first seconds", badCrashes, "the train derailed"},
		{"is never ready", badHangs, "configure"},
		{"does not start", badStart, "exit status 3"},
		{"is not what its manifest says", badDescribe, "the process reports"},
		{"does not take the settings", badConfig, "this version wants a port"},
		{"has a schema that does not take the settings", badSchema, "channels.line: missing: port"},
	} {
		for kind, exclusive := range map[string]bool{"exclusive": true, "parallel": false} {
			t.Run(c.name+", "+kind, func(t *testing.T) {
				s, p, st := commute(t, exclusive, patience, func(h *Host) {
					if c.version == badCrashes {
						h.timeouts.exitLag = patience // the process surely ends, and says why
					}
				})
				stop := p.rush(2 * time.Millisecond)
				installCommuter(t, s.store, c.version, exclusive, Options{Beside: true})
				if err := s.move1(c.version); err == nil || !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %q in it", err, c.says)
				}
				st.settled(t, p, stop())
				s.until("the version before runs", func() bool {
					got := s.status("line")
					return got.Version == "1.0.0" && (got.State == Ready || got.State == Degraded)
				})
				if r, err := s.store.Record("commuter"); err != nil || r.Active != "1.0.0" || slices.Contains(r.versions(), c.version) {
					t.Errorf("the lock: %+v, %v", r.Choice, err)
				}
				s.awaitLog("plugin version is rejected")
			})
		}
	}
}

// move1 waits for the outcome of a version that was proposed.
func (s *stage) move1(version string) error {
	s.t.Helper()
	var why error
	s.until("an outcome of "+version, func() bool {
		r, err := s.store.Record("commuter")
		if err == nil && len(r.Rejected) > 0 && r.Rejected[0].Version == version {
			why = errors.New(r.Rejected[0].Why)
		}
		return why != nil
	})
	return why
}

func TestQuarantineEndsWithABetterVersion(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	t.Cleanup(func() { _ = folder.Remove(s.store.versions.Dir) })
	p, st := newPlatform(t), newStation()
	installCommuter(t, s.store, badConfig, true, Options{})
	s.add(Instance{Name: "line", Plugin: "commuter", Settings: map[string]any{"address": p.address}}, st)
	s.await("line", Quarantined)
	installCommuter(t, s.store, "3.0.0", true, Options{Beside: true})
	s.await("line", Ready)
	p.post("m0")
	st.settled(t, p, 1)
	s.awaitLog("plugin version is active")
	s.until("3.0.0 in the lock", func() bool {
		r, err := s.store.Record("commuter")
		return err == nil && r.Active == "3.0.0"
	})
}

func TestTheLockIsObeyedWhileTheHostRuns(t *testing.T) {
	t.Parallel()
	s, p, st := commute(t, true, patience)
	if err := s.store.SetDisabled("commuter", true); err != nil {
		t.Fatal(err)
	}
	s.await("line", Disabled)
	if got := s.status("line"); got.PID != 0 || got.LastError != "" {
		t.Errorf("disabled: %+v", got)
	}
	if err := s.store.SetDisabled("commuter", false); err != nil {
		t.Fatal(err)
	}
	s.await("line", Ready)
	p.post("m0")
	st.settled(t, p, 1)
	if err := s.store.Remove("commuter"); err != nil {
		t.Fatal(err)
	}
	if got := s.await("line", Quarantined); got.PID != 0 || !strings.Contains(got.LastError, "is not installed") {
		t.Errorf("removed: %+v", got)
	}
}

// A plugin that was changed on the disk does not run from the next start of its process on, whatever was changed.
func TestTamperedPluginsDoNotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(t *testing.T, s *Store, dir string) error
		says  string
	}{
		"changed program": {func(t *testing.T, _ *Store, dir string) error { return appendTo(filepath.Join(dir, "bin/actor")) }, "bin/actor is not the file that was installed"},
		"changed manifest": {func(t *testing.T, _ *Store, dir string) error {
			return appendTo(filepath.Join(dir, ManifestName))
		}, "plugin.toml is not the file that was installed"},
		"swapped folder": {func(t *testing.T, s *Store, dir string) error {
			other := s.versions.Path("commuter/1.1.0/" + anyPlatform)
			return errors.Join(os.Chmod(filepath.Dir(dir), 0o700), os.Rename(dir, dir+".old"), os.Rename(other, dir))
		}, "is not the file that was installed"},
		"changed lock entry": {func(t *testing.T, s *Store, dir string) error {
			l, err := s.lock.Read()
			if err != nil {
				return err
			}
			r, _ := l.release("commuter", "1.0.0")
			r.Files["bin/actor"] = strings.Repeat("0", 64)
			return s.lock.Change(func(l lockFile) (lockFile, error) { return l.withRelease(r), nil })
		}, "the lock says 000000000000"},
		"lock entry without the program": {func(t *testing.T, s *Store, dir string) error {
			return s.lock.Change(func(l lockFile) (lockFile, error) {
				r, _ := l.release("commuter", "1.0.0")
				delete(r.Files, "bin/actor")
				return l.withRelease(r), nil
			})
		}, "bin/actor is not in the lock"},
		"broken lock": {func(t *testing.T, s *Store, dir string) error {
			return os.WriteFile(s.lock.Path, []byte("lock = 2\nx = 1"), 0o600)
		}, "unknown key x"},
		"replaced by a rename": {func(t *testing.T, _ *Store, dir string) error {
			name := filepath.Join(dir, "bin/actor")
			return errors.Join(os.WriteFile(name+".new", []byte("#!/bin/sh\nexit 0\n"), 0o500), os.Rename(name+".new", name))
		}, "bin/actor is not the file that was installed"},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, st := commute(t, true, patience)
			p.post("m0")
			st.settled(t, p, 1)
			r, err := s.store.Record("commuter")
			if err != nil {
				t.Fatal(err)
			}
			dir := s.store.versions.Path(r.ActiveRelease().dir())
			for _, sub := range []string{".", "bin"} {
				if err := os.Chmod(filepath.Join(dir, sub), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.spoil(t, s.store, dir); err != nil {
				t.Fatal(err)
			}
			if err := s.Restart("line"); err != nil {
				t.Fatal(err)
			}
			got := s.await("line", Quarantined)
			if got.PID != 0 || !strings.Contains(got.LastError, c.says) {
				t.Errorf("got %+v, want %q in it", got, c.says)
			}
		})
	}
}

func appendTo(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	// Another file of that name: the one before may be at work, and may not be written then.
	return errors.Join(os.Remove(name), os.WriteFile(name, append(text, "\n# more\n"...), 0o500))
}

// BenchmarkUpgradeGap prints how long no message comes through while an instance moves to another version.
func BenchmarkUpgradeGap(b *testing.B) {
	for _, exclusive := range []bool{true, false} {
		b.Run(map[bool]string{true: "exclusive", false: "parallel"}[exclusive], func(b *testing.B) {
			s, p, st := commute(b, exclusive, 50*time.Millisecond)
			stop := p.rush(time.Millisecond)
			var gaps []time.Duration
			for i := 0; b.Loop(); i++ {
				begin := time.Now()
				if err := s.move([]string{"1.1.0", "1.0.0"}[i%2]); err != nil {
					b.Fatal(err)
				}
				gaps = append(gaps, st.gap(begin))
			}
			st.settled(b, p, stop())
			slices.Sort(gaps)
			b.ReportMetric(float64(gaps[len(gaps)/2].Microseconds())/1000, "ms-gap-p50")
			b.ReportMetric(float64(gaps[len(gaps)-1].Microseconds())/1000, "ms-gap-max")
		})
	}
}
