package config

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestEverySecretFileIsHidden gives every key of the schema that ends in _file, and such keys of plugins at any depth, a path, and
// expects each of them among what neither a mount nor an image may hold. A new key is found by itself.
func TestEverySecretFileIsHidden(t *testing.T) {
	c := &Config{Path: "/cfg/flynn.toml"}
	var want []string
	name := func(at keyPath) string {
		path := "/hide/" + strings.NewReplacer(".", "/", "[", "", "]", "").Replace(at.String())
		want = append(want, path)
		return path
	}
	giveFiles(reflect.ValueOf(c).Elem(), nil, name)
	if len(want) < 8 {
		t.Fatalf("only %q: the walk over the schema is broken", want)
	}
	plugin := func(kind string) (map[string]any, map[string]string) {
		at := keyPath{kind, "x"}
		settings := map[string]any{
			"server": map[string]any{"login_file": name(at.child("deep"))},
			"list":   []any{map[string]any{"key_file": name(at.child("list"))}},
			"tables": []map[string]any{{"ca_key_file": name(at.child("tables"))}},
			"files":  map[string]any{"cert_file": []any{name(at.child("several"))}},
			"near":   map[string]any{"near_file": "near/" + kind},
			"home":   map[string]any{"home_file": "~/" + kind},
			"other":  "/open/other",
		}
		want = append(want, "/cfg/near/"+kind, "/home/me/"+kind)
		return settings, map[string]string{"bearer_file": name(at.child("ref")), "token_env": "/open/variable"}
	}
	var channel Channel
	channel.Settings, channel.refs = plugin("channels")
	var tool ToolProvider
	tool.Settings, tool.refs = plugin("tools")
	c.Channels, c.Tools = map[string]Channel{"x": channel}, map[string]ToolProvider{"x": tool}
	c.Store.Dir = "/hide/store"
	agent := c.Agents["x"]
	agent.CLI.AuthDir = "/login"
	c.Agents["x"] = agent

	environment := map[string]string{"HOME": "/home/me", "DOCKER_CERT_PATH": "/hide/certs"}
	rules := c.MountRules(func(key string) string { return environment[key] })
	for _, path := range append(want, "/hide/store", "/hide/certs", "/cfg/secrets") {
		if !slices.Contains(rules.Hidden, path) || !slices.Contains(rules.Secret, path) {
			t.Errorf("%s may be mounted or sent with a build context; hidden are\n%s", path, strings.Join(rules.Hidden, "\n"))
		}
	}
	if !slices.Contains(rules.Hidden, "/login") || slices.Contains(rules.Secret, "/login") {
		t.Error("auth_dir is mounted into the container of its own agent, and goes into no image")
	}
	for _, path := range rules.Hidden {
		if strings.HasPrefix(path, "/open") || !filepath.IsAbs(path) {
			t.Errorf("%s is hidden", path)
		}
	}
}

// giveFiles sets every key of the schema that names the file of a secret, and engine_key.
func giveFiles(v reflect.Value, at keyPath, name func(keyPath) string) {
	switch v.Kind() {
	case reflect.Struct:
		if ref, ok := v.Addr().Interface().(*SecretRef); ok {
			ref.File = name(at)
			return
		}
		for _, f := range fieldsOf(v.Type()) {
			field, here := v.Field(f.index), at.child(f.key)
			if isFile := strings.HasSuffix(f.key, "_file") && f.isPath || f.key == "engine_key"; isFile {
				field.SetString(name(here))
				continue
			}
			giveFiles(field, here, name)
		}
	case reflect.Map:
		if k := v.Type().Elem().Kind(); k != reflect.Struct {
			return
		}
		entry := reflect.New(v.Type().Elem()).Elem()
		giveFiles(entry, at.child("x"), name)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("x"), entry)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			giveFiles(v.Index(0), at.index(0), name)
		}
	}
}
