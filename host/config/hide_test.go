package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHide(t *testing.T) {
	const text = `# token = "in-a-comment"
password = 'sq\x'   # the old one
api_key = """
several
lines"""
[channels.x]
plugin = "irc" # secret = unquoted value
token_file = "secrets/x"
base_url = "https://anna:pa55@example.org/v1"
max_token = 4096
inline = { token = "in\"line", port = 1 }
"my token" = "quoted"
` + "broken_token = “curly”\r\nlast_secret = \"not closed\n"
	shown, hidden := Hide(text)
	for _, secret := range []string{"in-a-comment", `sq\x`, "several", "unquoted", "anna", "pa55", `in\"line`, "quoted\"", "curly", "not closed"} {
		if strings.Contains(shown, secret) {
			t.Errorf("%q is shown:\n%s", secret, shown)
		}
	}
	for _, plain := range []string{"secrets/x", "max_token = 4096", "port = 1", "# the old one", "example.org/v1"} {
		if !strings.Contains(shown, plain) {
			t.Errorf("%q is not shown:\n%s", plain, shown)
		}
	}
	if len(hidden) != 9 {
		t.Errorf("%d hidden: %q", len(hidden), hidden)
	}
	if back, err := Unhide(shown, text); err != nil || back != text {
		t.Errorf("%v\n%s\nwant\n%s", err, back, text)
	}
	edited := strings.Replace(shown, "max_token = 4096", "max_token = 1\nother_token = \"<hidden 2>\"", 1)
	if back, err := Unhide(edited, text); err != nil || !strings.Contains(back, `other_token = "sq\x"`) {
		t.Errorf("a mark where it is hidden again: %v\n%s", err, back)
	}
	for _, moved := range []string{"system_prompt = \"<hidden 2>\"\n", "# <hidden 1>\n", "[a.\"<hidden 3>\"]\n", "token = \"<hidden 99>\"\n"} {
		if back, err := Unhide(moved+shown, text); !errors.Is(err, ErrHidden) {
			t.Errorf("%q: %v\n%s", moved, err, back)
		}
	}
	if back, err := Unhide("prompt = \"<hidden 1>\"", "prompt = \"\""); err != nil || back != "prompt = \"<hidden 1>\"" {
		t.Errorf("a text without secrets: %q, %v", back, err)
	}
}

func TestHistory(t *testing.T) {
	h := History{filepath.Join(t.TempDir(), "configuration")}
	if all, err := h.List(); err != nil || len(all) != 0 {
		t.Fatal(all, err)
	}
	for i := range maxHistory + 5 {
		for range 2 { // twice the same is kept once
			if err := h.Keep([]byte(strings.Repeat("#", i)), i == 7); err != nil {
				t.Fatal(err)
			}
		}
	}
	all, err := h.List()
	if err != nil || len(all) != maxHistory {
		t.Fatal(len(all), err)
	}
	for i, f := range all {
		want := maxHistory + 4 - i
		text, err := h.Read(f.ID)
		if err != nil || len(text) != want || f.Bytes != int64(want) || f.Refused != (want == 7) || !f.Is(digest(text)) {
			t.Errorf("%d: %+v, %q, %v", i, f, text, err)
		}
		info, err := os.Stat(filepath.Join(h.dir, f.ID+".toml"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Error(info, err)
		}
	}
	for _, id := range []string{"", "../flynn", all[0].ID + "/../" + all[1].ID, all[0].ID + ".toml", strings.ToUpper(all[0].ID)} {
		if _, err := h.Read(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if info, err := os.Stat(h.dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Error(info, err)
	}
}

func TestKeys(t *testing.T) {
	const src = "\ufeff# c\r\nsystem_prompt = \"hi\"\r\n[agent_configs.\"a \\\"b\\\".c\"]\r\nmodel_tier = \"fast\"\r\n[channels.x]\r\nplugin = \"irc\"\r\ntoken = \"open\"\r\n" +
		"token_file = \"f\"\r\nurl = \"https://a:b@c/\"\r\nroom = { deep_password = \"q\" }\r\n[[policies]]\r\nname = \"p\"\r\n"
	byName := map[string]Key{}
	for _, k := range Keys("flynn.toml", []byte(src)) {
		if k.Meaning == "" && !k.Plugin {
			t.Errorf("%s has no meaning", KeyString(k.Path...))
		}
		byName[KeyString(k.Path...)] = k
	}
	if k := byName[`agent_configs."a \"b\".c".model_tier`]; k.Value != "fast" || !k.Set || k.Line != 4 || k.Default != "default" || len(k.OneOf) != 4 {
		t.Errorf("%+v", k)
	}
	if k := byName["channels.x.token"]; !k.Hidden || k.Value != nil || !k.Plugin {
		t.Errorf("%+v", k)
	}
	if k := byName["channels.x.token_file"]; k.Hidden || k.Value != "f" || !k.Reference {
		t.Errorf("%+v", k)
	}
	if k := byName["channels.x.url"]; k.Value != "https://<hidden>@c/" {
		t.Errorf("%+v", k)
	}
	if k := byName["channels.x.room"]; k.Value.(map[string]any)["deep_password"] != "<hidden>" {
		t.Errorf("%+v", k)
	}
	if k := byName["sandbox.memory_limit"]; k.Set || k.Form != "size" || k.Type != TypeText || k.Default != "512m" {
		t.Errorf("%+v", k)
	}
	if k := byName["policies[0].limits.fuel"]; k.Low != "1_000" || k.Type != TypeInteger {
		t.Errorf("%+v", k)
	}
	if k := byName["policies"]; k.Type != TypeTables || k.Value != 1 {
		t.Errorf("%+v", k)
	}
	if broken := Keys("flynn.toml", []byte("a = [\n\x00")); len(broken) < 100 || broken[0].Set {
		t.Errorf("%d keys of a file that is not TOML", len(broken))
	}
}
