//go:build unix

package plugin

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/flynnhost/flynn/host/install/folder"
	"github.com/flynnhost/flynn/host/internal/schema"
)

const roomSchema = `{"type":"object","additionalProperties":false,"required":["home"],"properties":{
	"home":{"type":"string","pattern":"^https://"},
	"rooms":{"type":"array","items":{"type":"object","additionalProperties":false,"properties":{"name":{"type":"string"},"topic.id":{"type":"integer"}}}}}}`

func settingsFor(t *testing.T, text string) *Settings {
	t.Helper()
	s, err := ReadSettings(makePack(t, "x", packOptions{schema: text}))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSettingsAreCheckedAsThePluginGetsThem(t *testing.T) {
	s := settingsFor(t, roomSchema)
	for name, c := range map[string]struct {
		settings map[string]any
		want     []SettingError
	}{
		"good": {settings: map[string]any{"home": "https://a", "rooms": []map[string]any{{"name": "a", "topic.id": int64(5)}}}},
		"none": {want: []SettingError{{Key: []string{}, Problem: "missing: home"}}},
		"misspelt": {
			settings: map[string]any{"home": "https://a", "roms": 1},
			want:     []SettingError{{Key: []string{"roms"}, Problem: "unknown key", Known: []string{"home", "rooms"}}},
		},
		"inside a list": {
			settings: map[string]any{"home": "https://a", "rooms": []any{map[string]any{}, map[string]any{"topic.id": 1.5}}},
			want:     []SettingError{{Key: []string{"rooms", "[1]", "topic.id"}, Problem: "must be integer, not number"}},
		},
		"unknown inside a list": {
			settings: map[string]any{"home": "https://a", "rooms": []any{map[string]any{"x": true}}},
			want:     []SettingError{{Key: []string{"rooms", "[0]", "x"}, Problem: "unknown key"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Check(c.settings)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
	if got := dotted([]string{"rooms", "[1]", "topic.id"}); got != `rooms[1]."topic.id"` {
		t.Errorf("written %s", got)
	}
	if _, err := s.Check(map[string]any{"home": strings.Repeat("x", maxSettings)}); err == nil {
		t.Error("settings of any length are taken")
	}
	if _, err := s.Check(map[string]any{"home": func() {}}); err == nil {
		t.Error("settings that no plugin could get are taken")
	}
}

func TestSettingsErrorsSayWhereAndHideValues(t *testing.T) {
	t.Parallel()
	const secret, open = "tok-5ecret", "hidden-in-a-setting"
	dir := makePack(t, "crash-start", packOptions{schema: roomSchema})
	s := start(t, map[string]string{"actor": dir, "good-actor": makeGood(t)})
	s.config.Where = func(_, instance string, key []string) string {
		return "flynn.toml:7(" + instance + "," + strings.Join(key, "|") + "): "
	}
	good := &listener{}
	s.add(Instance{Name: "good", Plugin: "good-actor"}, good)
	s.add(Instance{
		Name: "bad", Plugin: "actor", Secrets: map[string]string{"token": secret}, Settings: map[string]any{"home": open, secret: 1},
	}, hold(false))
	st := s.await("bad", Quarantined)
	const want = "flynn.toml:7(bad,home): channels.bad.home: must match ^https://; "
	if !strings.Contains(st.LastError, want) || !strings.Contains(st.LastError, "correct the configuration") {
		t.Errorf("the host says %q", st.LastError)
	}
	if all := st.LastError + s.log.String(); strings.Contains(all, secret) || strings.Contains(all, open) {
		t.Errorf("a value is told: %s", all)
	}
	if st.PID != 0 {
		t.Errorf("a process was started: %+v", st)
	}
	good.more(t, 5)
}

func TestInstallTakesNoSchemaThatIsNone(t *testing.T) {
	store, err := OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Remove(store.versions.Dir) })
	for name, c := range map[string]struct{ schema, want string }{
		"no JSON":     {"home = true", "read the schema"},
		"a reference": {`{"$ref":"http://127.0.0.1:1/"}`, "must stand alone"},
		"too long":    {`{"title":"` + strings.Repeat("x", schema.MaxBytes) + `"}`, "at most 65536"},
		"refused":     {roomSchema, os.ErrPermission.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := store.InstallFolder(makePack(t, "x", packOptions{schema: c.schema}), Options{Accept: func(_ Manifest, s *Settings) error {
				if wrong, err := s.Check(nil); err != nil || len(wrong) != 1 {
					t.Errorf("%v, %v", wrong, err)
				}
				return os.ErrPermission
			}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("install: %v, want %q", err, c.want)
			}
			if list, err := store.List(); err != nil || len(list) > 0 {
				t.Errorf("in the lock: %v, %v", list, err)
			}
		})
	}
	if _, err := store.Install(makePack(t, "x", packOptions{schema: roomSchema})); err != nil {
		t.Fatal(err)
	}
	s, err := store.Settings("actor", "")
	if err != nil {
		t.Fatal(err)
	}
	if wrong, err := s.Check(nil); err != nil || len(wrong) != 1 {
		t.Errorf("the installed schema: %v, %v", wrong, err)
	}
	dir := filepath.Join(store.dir, "store", "actor", "1.0.0", "any")
	file := filepath.Join(dir, "settings.json")
	for _, name := range []string{dir, file} {
		if err := os.Chmod(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Settings("actor", ""); err == nil || !strings.Contains(err.Error(), "not the file that was installed") {
		t.Errorf("a schema that was changed: %v", err)
	}
}
