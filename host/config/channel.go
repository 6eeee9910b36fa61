package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// channel reads one channel instance: our own keys, references to secrets, and the keys of the plugin.
func (d *decoder) channel(at keyPath, raw any, into *Channel) {
	d.instance(at, raw, reflect.ValueOf(into).Elem(), func(of Channel) {
		into.Settings, into.Secrets, into.refs = of.Settings, of.Secrets, of.refs
	})
}

// instance reads the table of a plugin's instance into v: our own keys, and by keep those of the plugin with its references to secrets.
func (d *decoder) instance(at keyPath, raw any, v reflect.Value, keep func(of Channel)) {
	var rest Channel
	own, ok := d.split(at, raw, keysOf(fieldsOf(v.Type())), &rest)
	if !ok {
		return
	}
	v.Set(defaults(v.Type()))
	keep(rest)
	d.table(at, own, v)
}

// split stores the keys of an instance's plugin, including references to secrets, and returns our own keys.
func (d *decoder) split(at keyPath, raw any, ours []string, into *Channel) (own map[string]any, ok bool) {
	table, ok := want[map[string]any](d, at, raw)
	if !ok {
		return nil, false
	}
	*into = Channel{Settings: map[string]any{}, Secrets: map[string]Secret{}, refs: map[string]string{}}
	own = map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(table)) {
		switch value := table[key]; {
		case slices.Contains(ours, key):
			own[key] = value
		case secretStem(key) != "":
			d.secretRef(at.child(key), value, into)
		case looksSecret(key, value):
			d.report(at.child(key), openSecret, secretHint(key))
		default:
			d.nestedSecrets(at.child(key), value)
			into.Settings[key] = value
		}
	}
	return own, true
}

// References returns the keys of the channel that say where a secret is, with what they name; paths are absolute.
func (c Channel) References() map[string]string { return maps.Clone(c.refs) }

func (d *decoder) secretRef(at keyPath, raw any, into *Channel) {
	ref, ok := want[string](d, at, raw)
	if !ok {
		return
	}
	v := reflect.ValueOf(&ref).Elem()
	if strings.HasSuffix(at.last(), fileSuffix) {
		d.path(at, v)
	}
	into.refs[at.last()] = ref
}

// secretStem is the name of the secret that a key refers to, or "".
func secretStem(key string) string {
	for _, suffix := range []string{"_env", fileSuffix} {
		if stem, ok := strings.CutSuffix(key, suffix); ok {
			return stem
		}
	}
	return ""
}

const openSecret = "secret in the configuration file"

// secretHint says how to refer to a secret.
func secretHint(key string) string {
	return fmt.Sprintf("secrets never stand here: write %s_env with the name of an environment variable, or %s_file with a path", key, key)
}

// nestedSecrets reports secrets deeper in the keys of the plugin. Only keys of the channel itself can refer to one.
func (d *decoder) nestedSecrets(at keyPath, value any) {
	if table, ok := value.(map[string]any); ok {
		for _, key := range slices.Sorted(maps.Keys(table)) {
			if looksSecret(key, table[key]) {
				d.report(at.child(key), openSecret, fmt.Sprintf("write %s_env or %s_file directly under the channel", key, key))
			}
			d.nestedSecrets(at.child(key), table[key])
		}
	}
	elements, _ := elementsOf(value)
	for i, element := range elements {
		d.nestedSecrets(at.index(i), element)
	}
}

// looksSecret guards against the common mistake of writing a secret into the file. It goes by the name of the key, since the
// keys of plugins are unknown here.
func looksSecret(key string, value any) bool {
	if _, isString := value.(string); !isString {
		return false
	}
	for _, word := range []string{"token", "password", "passwd", "secret", "api_key", "apikey", "private_key"} {
		if strings.HasSuffix(strings.ToLower(key), word) {
			return true
		}
	}
	return false
}
