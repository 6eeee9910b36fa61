package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/store"
)

const crlf = "# Flynn of Ann.\r\nsystem_prompt = \"hi\" # greet\r\n\r\n# the one\r\n[agent_configs.main] # who answers\r\n# small\r\ntool_profile  = \"minimal\"\r\n" +
	"\r\n[routing]\r\ndefault_agent = \"main\"\r\n# api_key = \"sk-in-a-comment\"\r\n[store]\r\ndir = \"data\"\r\n"

// open returns the settings of a file with a text.
func open(t *testing.T, text string) (Settings, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "flynn.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return map[string]string{"HOME": filepath.Dir(path)}[name] }
	log := slog.New(slog.DiscardHandler)
	h, err := config.NewHolder(path, getenv, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Reload(t.Context()); err != nil { // keeps the text, as Run does
		t.Fatal(err)
	}
	same := func(a, b config.Channel) bool { return a.Plugin == b.Plugin && a.Enabled == b.Enabled }
	return Settings{
		Holder: h, Editor: edit.InHost(h, edit.EditorConfig{Getenv: getenv, Log: log}), Log: log, SameChannel: same, SameTools: func(a, b config.ToolProvider) bool { return true },
	}, path
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func now(t *testing.T, s Settings) gateway.Configuration {
	t.Helper()
	c, err := s.Configuration(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func set(value any, key ...string) gateway.ConfigurationChange {
	return gateway.ConfigurationChange{Key: key, Value: value}
}

func put(t *testing.T, s Settings, changes ...gateway.ConfigurationChange) (gateway.ConfigurationEdited, error) {
	t.Helper()
	return s.EditConfiguration(t.Context(), gateway.ConfigurationEdit{Version: now(t, s).Version, Changes: changes}, "web:owner")
}

func TestEditKeepsAllElse(t *testing.T) {
	s, path := open(t, crlf)
	rude := "line\none \"two\" \\ \u202e\x7f'''"
	out, err := put(t, s, set("coding", "agent_configs", "main", "tool_profile"), set(rude, "system_prompt"), set(float64(7), "limits", "sandboxes"),
		set([]any{"fast", "a \"b\""}, "agent_configs", "main", "tool_overrides", "allow"))
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, path)
	for _, kept := range []string{"# Flynn of Ann.\r\n", "# greet\r\n", "# the one\r\n[agent_configs.main] # who answers\r\n# small\r\ntool_profile  = \"coding\"\r\n", "# api_key = \"sk-in-a-comment\"\r\n"} {
		if !strings.Contains(text, kept) {
			t.Errorf("%q is not in\n%s", kept, text)
		}
	}
	if strings.Count(text, "\n") != strings.Count(text, "\r\n") {
		t.Errorf("line ends are mixed:\n%q", text)
	}
	c := s.Holder.Current()
	if c.SystemPrompt != rude || c.Generation != out.Generation || c.Limits.Sandboxes != 7 || len(c.Agents["main"].ToolOverrides.Allow) != 2 {
		t.Errorf("%+v", c.Agents["main"])
	}
	if n := now(t, s); strings.Contains(n.Text+out.Difference, "sk-in") || n.State != gateway.ConfigurationInForce || n.Version != out.Version || n.Undo == "" {
		t.Errorf("%+v\n%s", n, out.Difference)
	}
	if _, err := s.EditConfiguration(t.Context(), gateway.ConfigurationEdit{Version: out.Version, Former: now(t, s).Undo}, ""); err != nil || read(t, path) != crlf {
		t.Errorf("undone: %v\n%s", err, read(t, path))
	}
	// Back again: an undo is itself undone.
	if _, err := s.EditConfiguration(t.Context(), gateway.ConfigurationEdit{Version: now(t, s).Version, Former: now(t, s).Undo}, ""); err != nil || read(t, path) != text {
		t.Errorf("redone: %v\n%s", err, read(t, path))
	}
}

func TestRefusedEdits(t *testing.T) {
	s, path := open(t, crlf)
	large := strings.Repeat("x", 1<<20)
	whole := func(text string) gateway.ConfigurationEdit { return gateway.ConfigurationEdit{Text: &text} }
	keys := func(c ...gateway.ConfigurationChange) gateway.ConfigurationEdit {
		return gateway.ConfigurationEdit{Changes: c}
	}
	for name, c := range map[string]struct {
		edit gateway.ConfigurationEdit
		says string
	}{
		"an unknown key":           {keys(set("x", "sandbox", "imgae")), "unknown key"},
		"a wrong value":            {keys(set("lots", "sandbox", "memory_limit")), "not a size"},
		"a value of 1 MiB":         {keys(set(large, "system_prompt")), "larger than"},
		"a secret":                 {keys(set(map[string]any{"plugin": "irc", "password": "pa55word"}, "channels", "x")), "secret in the configuration file"},
		"null":                     {keys(set(nil, "system_prompt")), "a value is missing"},
		"a table in place of":      {keys(set(map[string]any{"a": "b"}, "agent_configs")), "is there already"},
		"a key below a value":      {keys(set("b", "system_prompt", "a")), "not a table"},
		"a number past all":        {keys(set(float64(1<<60), "limits", "sandboxes")), "too large"},
		"an element of nothing":    {keys(gateway.ConfigurationChange{Key: []string{"schedules", "[3]", "name"}, Value: "x"}), ""},
		"a key of the start":       {keys(set("elsewhere", "store", "dir")), "restart flynn"},
		"a mark as a value":        {keys(set([]any{"https://<hidden>@x"}, "gateway", "origins")), "no value"},
		"both forms":               {gateway.ConfigurationEdit{Changes: []gateway.ConfigurationChange{set("x", "system_prompt")}, Former: "x"}, "one of text"},
		"no TOML":                  {whole("a = \n[b"), "not TOML"},
		"a text with control":      {whole("system_prompt = \"a\x00b\""), "not TOML"},
		"a moved mark":             {whole(strings.Replace(now(t, s).Text, "hi", "<hidden 1>", 1)), "mark"},
		"a former text of nowhere": {gateway.ConfigurationEdit{Former: "../../etc/passwd"}, ""},
		"nothing":                  {gateway.ConfigurationEdit{}, "one of text"},
	} {
		c.edit.Version = now(t, s).Version
		_, err := s.EditConfiguration(t.Context(), c.edit, "web:owner")
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "pa55word") || strings.Contains(err.Error(), "sk-in") {
			t.Errorf("%s: %v", name, err)
		}
		if len(err.Error()) > 4096 {
			t.Errorf("%s: an error of %d bytes", name, len(err.Error()))
		}
		if read(t, path) != crlf {
			t.Fatalf("%s: the file is\n%s", name, read(t, path))
		}
		check, err := s.CheckConfiguration(t.Context(), c.edit)
		if err == nil && check.Restart != gateway.RestartNow && (check.OK || len(check.Problems) == 0) {
			t.Errorf("%s: the check is %+v", name, check)
		}
	}
	if g := s.Holder.Current(); g.SystemPrompt != "hi" {
		t.Errorf("in force is %+v", g)
	}
}

func TestTwoWritersAndTheDisk(t *testing.T) {
	s, path := open(t, crlf)
	v := now(t, s).Version
	var wait sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wait.Go(func() {
			_, errs[i] = s.EditConfiguration(t.Context(), gateway.ConfigurationEdit{Version: v, Changes: []gateway.ConfigurationChange{set(float64(i+1), "limits", "sandboxes")}}, "")
		})
	}
	wait.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else if !errors.Is(err, store.ErrConflict) {
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d of %d writers who saw the same file were successful", done, len(errs))
	}
	// Somebody edits the file by hand, wrongly.
	v = now(t, s).Version
	byHand := "token = \"open-secret\"\nnonsense = [\n"
	if err := os.WriteFile(path, []byte(byHand), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EditConfiguration(t.Context(), gateway.ConfigurationEdit{Version: v, Changes: []gateway.ConfigurationChange{set("x", "system_prompt")}}, ""); !errors.Is(err, store.ErrConflict) {
		t.Error(err)
	}
	if n := now(t, s); n.State != gateway.ConfigurationPending {
		t.Errorf("before it was tried: %+v", n)
	}
	if err := s.Holder.Reload(t.Context()); err == nil {
		t.Fatal("it was accepted")
	}
	n := now(t, s)
	if n.State != gateway.ConfigurationRefused || n.Refused == "" || len(n.Problems) == 0 || n.Problems[0].Line == 0 || strings.Contains(n.Text+n.Refused, "open-secret") {
		t.Errorf("%+v", n)
	}
	if _, err := s.EditConfiguration(t.Context(), gateway.ConfigurationEdit{Version: n.Version, Changes: []gateway.ConfigurationChange{set("x", "system_prompt")}}, ""); !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "correct its text") {
		t.Error(err)
	}
	// The text is replaced, and that of the person is kept.
	if _, err := s.EditConfiguration(t.Context(), gateway.ConfigurationEdit{Version: n.Version, Former: n.Undo}, ""); err != nil {
		t.Fatal(err)
	}
	former, err := s.FormerConfigurations(t.Context())
	if err != nil || !former[0].Now || !former[1].Refused {
		t.Fatal(former, err)
	}
	if kept, err := config.HistoryOf(s.Holder.Current()).Read(former[1].ID); err != nil || string(kept) != byHand {
		t.Errorf("%q, %v", kept, err)
	}
}

func TestFileThatCannotBeWritten(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"read-only": func(path string) error { return os.Chmod(path, 0o400) },
		"a link": func(path string) error {
			return errors.Join(os.Rename(path, path+".real"), os.Symlink(path+".real", path))
		},
	} {
		s, path := open(t, crlf)
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		if n := now(t, s); n.ReadOnly == "" {
			t.Errorf("%s: %+v", name, n)
		}
		if _, err := put(t, s, set("x", "system_prompt")); !errors.Is(err, store.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecrets(t *testing.T) {
	s, path := open(t, crlf)
	const secret = "xoxb-123456"
	got, err := s.SetSecret(t.Context(), "x_token", " "+secret+"\n", "web:owner")
	if err != nil || got.File != "data/secrets/x_token" {
		t.Fatal(got, err)
	}
	info, err := os.Stat(filepath.Join(filepath.Dir(path), got.File))
	if err != nil || info.Mode().Perm() != 0o600 || read(t, filepath.Join(filepath.Dir(path), got.File)) != secret+"\n" {
		t.Fatal(info, err)
	}
	if _, err := put(t, s, gateway.ConfigurationChange{Key: []string{"channels", "x"}, Value: map[string]any{"plugin": "irc", "token_file": got.File}}); err != nil {
		t.Fatal(err)
	}
	all, err := s.Secrets(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != "x_token" || len(all[0].Used) != 1 || all[0].Used[0] != "channels.x.token_file" {
		t.Error(all, err)
	}
	for _, name := range []string{"", ".x", "a/b", "a\x00", "ä", strings.Repeat("a", 101)} {
		if _, err := s.SetSecret(t.Context(), name, secret, ""); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, value := range []string{"", " \n", "a\nb", strings.Repeat("x", 70_000), "a\x1b[31m"} {
		if _, err := s.SetSecret(t.Context(), "y", value, ""); err == nil || len(err.Error()) > 200 {
			t.Errorf("%.20q: %v", value, err)
		}
	}
	if all, _ := s.Secrets(t.Context()); len(all) != 1 {
		t.Errorf("%+v", all)
	}
}

func TestEffects(t *testing.T) {
	s, _ := open(t, crlf+"[channels.a]\r\nplugin = \"irc\"\r\naddress = \"x:1\"\r\n")
	check, err := s.CheckConfiguration(t.Context(), gateway.ConfigurationEdit{Version: now(t, s).Version, Changes: []gateway.ConfigurationChange{
		set(false, "channels", "a", "enabled"), set(map[string]any{"plugin": "irc"}, "channels", "b"), set("x", "system_prompt"), set(float64(2), "store", "max_age_hours"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range check.Effects {
		got = append(got, strings.Join([]string{e.Part, e.Name, e.Change}, " "))
	}
	want := "store.max_age_hours  needs_restart, system_prompt  changes, channels a stops, channels b starts, store  changes"
	if strings.Join(got, ", ") != want || !check.OK {
		t.Errorf("%v, want %s; %v", got, want, check.OK)
	}
}

// TestAfterRestart: a key that is read at the start is saved and waits, and the running value is shown until then.
func TestAfterRestart(t *testing.T) {
	s, path := open(t, crlf)
	runs := s.Holder.Current().Store.MaxAgeHours
	of := func() gateway.ConfigurationKey {
		t.Helper()
		keys, err := s.ConfigurationKeys(t.Context(), "store")
		if err != nil {
			t.Fatal(err)
		}
		return keys[slices.IndexFunc(keys, func(k gateway.ConfigurationKey) bool { return k.Name == "store.max_age_hours" })]
	}
	if k := of(); k.Runs != nil {
		t.Errorf("before: %+v", k)
	}
	if _, err := put(t, s, set(float64(3), "store", "max_age_hours"), set("new", "system_prompt")); err != nil {
		t.Fatal(err)
	}
	c := s.Holder.Current()
	if k := of(); c.Store.MaxAgeHours != runs || c.SystemPrompt != "new" || k.Value != int64(3) || k.Runs == nil || *k.Runs != fmt.Sprint(runs) || !strings.Contains(read(t, path), "max_age_hours = 3\r\n") {
		t.Errorf("%+v, in force is %d", k, c.Store.MaxAgeHours)
	}
	if n := now(t, s); n.State != gateway.ConfigurationInForce {
		t.Errorf("%+v", n)
	}
	if _, err := s.EditConfiguration(t.Context(), gateway.ConfigurationEdit{Version: now(t, s).Version, Former: now(t, s).Undo}, ""); err != nil || of().Runs != nil {
		t.Errorf("undone: %v, %+v", err, of())
	}
}

// TestListsOfTables adds, moves and removes elements, with rude values.
func TestListsOfTables(t *testing.T) {
	s, path := open(t, crlf)
	schedule := func(name string) map[string]any {
		return map[string]any{"name": name, "agent": "main", "every": "1h", "text": "a \"b\"\n]]\n[[x]] \u202e\x7f", "as": "terminal:owner"}
	}
	add := func(name string) gateway.ConfigurationChange {
		return gateway.ConfigurationChange{Key: []string{"schedules"}, Value: schedule(name), Add: true}
	}
	if _, err := put(t, s, add("one"), add("two"), add("three")); err != nil {
		t.Fatal(err)
	}
	names := func() (out []string) {
		for _, sch := range s.Holder.Current().Schedules {
			out = append(out, sch.Name)
		}
		return out
	}
	first, seen := 0, now(t, s).Version
	if _, err := put(t, s, gateway.ConfigurationChange{Key: []string{"schedules", "[2]"}, Move: &first}); err != nil || !slices.Equal(names(), []string{"three", "one", "two"}) {
		t.Fatalf("%v, %v\n%s", err, names(), read(t, path))
	}
	// Another window, which saw the list before, changes nothing.
	if _, err := s.EditConfiguration(t.Context(), gateway.ConfigurationEdit{Version: seen, Changes: []gateway.ConfigurationChange{{Key: []string{"schedules", "[0]"}, Unset: true}}}, ""); !errors.Is(err, store.ErrConflict) {
		t.Errorf("an edit of the list before: %v", err)
	}
	if _, err := put(t, s, gateway.ConfigurationChange{Key: []string{"schedules", "[1]"}, Unset: true}, set("2h", "schedules", "[0]", "every")); err != nil || !slices.Equal(names(), []string{"three", "two"}) {
		t.Fatalf("%v, %v", err, names())
	}
	if got := s.Holder.Current().Schedules[0]; got.Text != schedule("")["text"] || got.Every.String() != "2h0m0s" {
		t.Errorf("%+v", got)
	}
	far := 7
	for name, c := range map[string]gateway.ConfigurationChange{
		"an unknown key":   {Key: []string{"schedules"}, Value: map[string]any{"nmae": "x"}, Add: true},
		"too far":          {Key: []string{"schedules", "[0]"}, Move: &far},
		"nothing to move":  {Key: []string{"schedules", "[5]"}, Move: &first},
		"a move and value": {Key: []string{"schedules", "[0]"}, Move: &first, Value: "x"},
	} {
		before := read(t, path)
		if _, err := put(t, s, c); err == nil || read(t, path) != before {
			t.Errorf("%s: %v", name, err)
		}
	}
	keys, err := s.ConfigurationKeys(t.Context(), "schedules")
	if err != nil {
		t.Fatal(err)
	}
	fresh := 0
	for _, k := range keys {
		if k.New {
			fresh++
			if k.Set || k.Key[1] != "[2]" {
				t.Errorf("%+v", k)
			}
		}
	}
	if fresh != 11 {
		t.Errorf("a new element has %d keys", fresh)
	}
}
