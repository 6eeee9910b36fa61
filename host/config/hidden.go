package config

import (
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// hidden are the files and folders with secrets and conversations: the store, the folder secrets beside the configuration, and
// every path of a key ending in _file, in sections of the host and of plugins.
func (c *Config) hidden(getenv func(string) string) []string {
	f := secretFinder{expand: expander(c.Path, getenv)}
	f.paths = []string{filepath.Join(c.folder(), "secrets"), c.Store.Dir, getenv("DOCKER_CERT_PATH")}
	f.value(reflect.ValueOf(*c))
	return f.paths
}

// Paths returns what the configuration names of files and folders, each once: those of secrets and all others.
func (c *Config) Paths(getenv func(string) string) []string {
	f := secretFinder{expand: expander(c.Path, getenv), all: true}
	f.value(reflect.ValueOf(*c))
	slices.Sort(f.paths)
	return slices.DeleteFunc(slices.Compact(f.paths), func(path string) bool { return path == "" })
}

// secretFinder collects the paths of secret files, or all paths.
type secretFinder struct {
	expand func(path string) (string, error)
	all    bool
	paths  []string
}

// value searches a value of the schema.
func (f *secretFinder) value(v reflect.Value) {
	switch value := v.Interface().(type) {
	case SecretRef:
		f.paths = append(f.paths, value.File)
		return
	case Channel:
		f.plugin(value.Settings, value.refs)
		return
	case ToolProvider:
		f.plugin(value.Settings, value.refs)
		return
	case Driver:
		f.plugin(value.Settings, value.refs)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range fieldsOf(v.Type()) {
			if in := v.Field(field.index); field.secret || f.all && field.isPath {
				f.strings(in)
			} else {
				f.value(in)
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			f.value(v.MapIndex(key))
		}
	case reflect.Slice:
		for i := range v.Len() {
			f.value(v.Index(i))
		}
	}
}

// strings adds a string, or those of a list or a map.
func (f *secretFinder) strings(v reflect.Value) {
	switch value := v.Interface().(type) {
	case []string:
		f.paths = append(f.paths, value...)
	case map[string]string:
		f.paths = slices.AppendSeq(f.paths, maps.Values(value))
	default:
		f.paths = append(f.paths, v.String())
	}
}

// plugin searches the keys of a plugin's instance: its references to secrets, and its settings at any depth. It takes a relative path
// there from the configuration's folder.
func (f *secretFinder) plugin(settings map[string]any, refs map[string]string) {
	for key, path := range refs {
		f.key(key, path)
	}
	for key, value := range settings {
		f.key(key, value)
	}
}

func (f *secretFinder) key(key string, value any) {
	switch value := value.(type) {
	case string:
		if !strings.HasSuffix(key, fileSuffix) || value == "" {
			return
		}
		if path, err := f.expand(value); err == nil {
			f.paths = append(f.paths, path)
		}
	case map[string]any:
		for key, value := range value {
			f.key(key, value)
		}
	default:
		elements, _ := elementsOf(value)
		for _, element := range elements {
			f.key(key, element)
		}
	}
}

// fileSuffix ends the keys that name the file of a secret.
const fileSuffix = "_file"
