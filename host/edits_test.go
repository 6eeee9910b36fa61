package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/store"
	"github.com/flynnhost/flynn/host/tool/consent"
)

// TestTwentyEditors has every kind of editor edit flynn.toml at the same time, and a person edit it by hand in the middle. Each edit ends in force
// or is refused, and none is lost unseen.
func TestTwentyEditors(t *testing.T) {
	h := newHost(t, "\n[access]\nowners = [\"c0:ann\"]\n"+
		"[channels.c0]\nplugin = \"irc\"\nenabled = false\n[channels.c1]\nplugin = \"irc\"\nenabled = false\n[channels.c2]\nplugin = \"irc\"\nenabled = false\n"+
		"[[schedules]]\nname = \"old\"\nagent = \"a\"\nevery = \"1h\"\ntext = \"x\"\nas = \"c0:ann\"\n")
	defer h.close()
	defer h.holder.Subscribe(h.stage)()
	h.holder.Subscribe(func(_ context.Context, _, next *config.Config) (commit, rollback func(), err error) {
		if strings.Contains(next.SystemPrompt, "refuse") {
			err = errors.New("the host has no room for it")
		}
		return nil, nil, err
	})
	path, subjects := h.holder.Path(), h.backend()
	const by = "c0:ann"
	setting := func(value any, key ...string) func() error {
		return func() error {
			for {
				now, err := subjects.Configurations.Configuration(t.Context())
				if err != nil {
					return err
				}
				_, err = subjects.Configurations.EditConfiguration(t.Context(), gateway.ConfigurationEdit{
					Version: now.Version, Changes: []gateway.ConfigurationChange{{Key: key, Value: value}},
				}, by)
				if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "since you read it") {
					return err
				}
			}
		}
	}
	command := func(name string) func() error {
		return func() error {
			f, err := edit.Open(path)
			if err != nil {
				return err
			}
			if err := f.Set(edit.Table{"tool_profile": "minimal"}, "agent_configs", name); err != nil {
				return err
			}
			e := edit.NewEditor(edit.EditorConfig{Path: path, Getenv: os.Getenv, Checks: Checks(), Reload: func(ctx context.Context) (uint64, error) {
				out, err := subjects.Reloads.Reload(ctx, "web:owner")
				return out.Generation, err
			}})
			_, err = e.Apply(t.Context(), edit.Author{}, f)
			return err
		}
	}
	text := func(s string) *string { return &s }
	schedule := func(name string) func() error {
		return func() error {
			_, err := subjects.Schedules.AddSchedule(t.Context(), gateway.NewSchedule{Name: name, ScheduleKeys: gateway.ScheduleKeys{Every: text("2h"), Text: text("x")}}, by)
			return err
		}
	}
	block := func(who message.SenderKey) func() error {
		return func() error { return subjects.People.SetBlocked(t.Context(), who, true, by) }
	}
	enable := func(name string) func() error {
		return func() error {
			return subjects.Channels.ChangeChannel(t.Context(), name, gateway.ChannelChange{Settings: map[string]any{"nick": "by-room-" + name}}, by)
		}
	}
	hand := func(n int) func() error { // inside of an edit, where the lock does not help
		return func() error {
			_, err := h.editor.Edit(t.Context(), edit.Author{By: by}, func(f *edit.File, _ *config.Config) error {
				mark := fmt.Appendf(f.Before(), "# by hand %d\n", n)
				if err := os.WriteFile(path, mark, 0o600); err != nil {
					return err
				}
				return f.Set(edit.Table{"tool_profile": "minimal"}, "agent_configs", fmt.Sprint("lost", n))
			})
			return err
		}
	}
	edits := []struct {
		do   func() error
		mark string // what the file has if the edit is in force
		ends string // "": in force, "either", or what the refusal says
	}{
		{setting(map[string]any{"tool_profile": "minimal"}, "agent_configs", "s1"), "[agent_configs.s1]", ""},
		{setting(map[string]any{"tool_profile": "minimal"}, "agent_configs", "s2"), "[agent_configs.s2]", ""},
		{setting(float64(7), "limits", "sandboxes"), "sandboxes = 7", ""},
		{setting("refuse \"this\"\n]]", "system_prompt"), "refuse", "no room"},
		{setting("lots", "sandbox", "memory_limit"), "lots", "not a size"},
		{schedule("t1"), `name = "t1"`, ""},
		{schedule("t2"), `name = "t2"`, ""},
		{schedule("old"), "", "choose another name"},
		{func() error { return subjects.Schedules.RemoveSchedule(t.Context(), "none", by) }, "", "no schedule"},
		{block("c1:zoe"), `"c1:zoe"`, ""},
		{block("c1:<img> \"q\" ]]"), `"c1:<img> \"q\" ]]"`, ""},
		{block("c0:ann"), "", "stronger"},
		{enable("c0"), "by-room-c0", ""},
		{enable("c1"), "by-room-c1", ""},
		{func() error { return subjects.Channels.RemoveChannel(t.Context(), "c9", by) }, "", "no channel"},
		{func() error {
			_, err := subjects.Secrets.SetSecret(t.Context(), "x_token", "s3cr3t", by)
			return err
		}, "", ""},
		{command("k1"), "[agent_configs.k1]", "either"},
		{command("k2"), "[agent_configs.k2]", "either"},
		{hand(1), "[agent_configs.lost1]", "has changed"},
		{hand(2), "[agent_configs.lost2]", "has changed"},
	}
	errs := make([]error, len(edits))
	var all sync.WaitGroup
	for i, e := range edits {
		all.Go(func() { errs[i] = e.do() })
	}
	all.Wait()
	if err := h.holder.Reload(t.Context()); err != nil { // what was written by hand last
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	after, made := string(b), 0
	for i, e := range edits {
		if (e.ends == "") != (errs[i] == nil) && e.ends != "either" || e.ends != "" && e.ends != "either" && !strings.Contains(errs[i].Error(), e.ends) {
			t.Errorf("edit %d (%s): %v, want %q", i, e.mark, errs[i], e.ends)
		}
		if errs[i] == nil {
			made++
		}
		if e.mark != "" && strings.Contains(after, e.mark) != (errs[i] == nil) {
			t.Errorf("edit %d (%s) ended with %v, and the file is\n%s", i, e.mark, errs[i], after)
		}
	}
	if !strings.Contains(after, "# by hand 1\n") || !strings.Contains(after, "# by hand 2\n") {
		t.Errorf("what was written by hand is lost:\n%s", after)
	}
	if now := h.holder.Current(); now.Digest != config.DigestOf(b) || len(now.Schedules) != 3 {
		t.Errorf("in force is %s, the file is %s", now.Digest, config.DigestOf(b))
	}
	rows, err := h.store.ListAudit(t.Context(), consent.AuditFilter{Kind: consent.AuditConfigured})
	if err != nil || len(rows) != made || rows[0].Actor == "" || rows[0].Detail == "" {
		t.Errorf("%d edits were made, and recorded are %+v, %v", made, rows, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}
