package channels

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/admin/setup"
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/internal/schema"
	"github.com/flynnhost/flynn/host/plugin"
)

// maxKinds bounds the plugins in an answer.
const maxKinds = 200

// ChannelKinds implements gateway.Channels.
func (c Channels) ChannelKinds(context.Context) ([]gateway.ChannelKind, error) {
	current := c.Current()
	plugins, err := plugin.OpenStore(current.Plugins.Dir)
	if err != nil {
		return nil, err
	}
	out := []gateway.ChannelKind{}
	names := setup.ChannelPlugins(current)
	for _, name := range names[:min(len(names), maxKinds)] {
		p, err := setup.FindPlugin(current, name)
		if err != nil {
			continue // it went meanwhile
		}
		k := gateway.ChannelKind{Plugin: p.Name, Version: p.Version, Description: p.Description, Installed: !plugins.Awaits(name)}
		for _, secret := range p.Config.Secrets {
			k.Fields = append(k.Fields, gateway.FormField{Name: secret, Type: config.TypeText, Title: title(secret),
				Secret: true, Help: setup.SecretHelp(p.Name, secret)})
		}
		for _, f := range p.Settings.Fields() {
			k.Fields = append(k.Fields, formField(f))
		}
		k.Fields = append(k.Fields, hostFields()...)
		out = append(out, k)
	}
	return out, nil
}

// formField is a key of a plugin's schema as a field.
func formField(f schema.Field) gateway.FormField {
	out := gateway.FormField{Name: f.Key, Type: typeOf(f.Types), Title: f.Title, Help: f.Description, Required: f.Required}
	if out.Title == "" {
		out.Title = title(f.Key)
	}
	for _, v := range f.Enum {
		out.Enum = append(out.Enum, fmt.Sprint(v))
	}
	if f.Default != nil {
		if text, ok := f.Default.(string); ok {
			out.Default = text
		} else if text, err := json.Marshal(f.Default); err == nil {
			out.Default = string(text)
		}
	}
	return out
}

func typeOf(types []string) string {
	if len(types) != 1 {
		return config.TypeText
	}
	known := map[string]string{
		"string": config.TypeText, "boolean": config.TypeBoolean, "integer": config.TypeInteger, "number": config.TypeNumber, "array": config.TypeList,
		"object": config.TypeMap,
	}
	if t, ok := known[types[0]]; ok {
		return t
	}
	return config.TypeOther
}

// title makes words of a key.
func title(key string) string {
	words := strings.NewReplacer("_", " ", "-", " ").Replace(key)
	if words == "" {
		return words
	}
	return strings.ToUpper(words[:1]) + words[1:]
}

// hostFields are the keys of a channel that are flynn's.
func hostFields() (out []gateway.FormField) {
	for _, k := range config.Keys("", []byte("[channels.x]\n")) {
		if len(k.Path) != 3 || k.Path[0] != "channels" || k.Path[2] == "plugin" {
			continue
		}
		out = append(out, gateway.FormField{
			Name: k.Path[2], Type: k.Type, Title: title(k.Path[2]), Help: k.Meaning, Default: k.Default, Enum: k.OneOf, Host: true,
		})
	}
	return out
}

func isHostKey(key string) bool {
	return slices.ContainsFunc(hostFields(), func(f gateway.FormField) bool { return f.Name == key })
}
