package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/flynnhost/flynn/host/plugin/kind"
	"github.com/flynnhost/flynn/host/plugin/kind/channel"
	"github.com/flynnhost/flynn/host/plugin/kind/sandbox"
	"github.com/flynnhost/flynn/host/plugin/kind/tools"
	"github.com/flynnhost/flynn/sdk/proto/pluginv1"
)

// Kinds are the kinds of plugin that a host supports, in the order in which people see them.
type Kinds []kind.Kind

// AllKinds returns all kinds of plugin. Nothing else in this package names one.
func AllKinds() Kinds { return Kinds{channel.Kind{}, tools.Kind{}, sandbox.Kind{}} }

// Get returns the kind of a name; nil if there is none.
func (ks Kinds) Get(name kind.Name) kind.Kind {
	for _, k := range ks {
		if k.Name() == name {
			return k
		}
	}
	return nil
}

// String lists the names for people: "channel, tools or sandbox".
func (ks Kinds) String() string {
	var names []string
	for _, k := range ks {
		names = append(names, string(k.Name()))
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}

// Wire returns the kinds of a manifest as Describe has them.
func (ks Kinds) Wire(names []kind.Name) []pluginv1.Kind {
	var out []pluginv1.Kind
	for _, k := range ks {
		if slices.Contains(names, k.Name()) {
			out = append(out, k.Wire())
		}
	}
	return out
}

// differences describes the differences between the kinds of a manifest and those of a process. Unknown kinds do not count.
func (ks Kinds) differences(m Manifest, d *pluginv1.DescribeResponse) []string {
	var out []string
	says, tells := ks.Wire(m.Kinds), slices.DeleteFunc(slices.Clone(d.GetKinds()), func(k pluginv1.Kind) bool {
		return !slices.ContainsFunc(ks, func(known kind.Kind) bool { return known.Wire() == k })
	})
	slices.Sort(says)
	slices.Sort(tells)
	if !slices.Equal(says, slices.Compact(tells)) {
		out = append(out, fmt.Sprintf("kinds are %v, but the process reports %v", m.Kinds, d.GetKinds()))
	}
	for _, name := range m.Kinds {
		if o := m.Options[name]; o != nil {
			out = append(out, o.Differences(d)...)
		}
	}
	return out
}

// options reads the tables of the kinds in a plugin.toml. known reports whether one of them has a key.
func (ks Kinds) options(text string) (all map[kind.Name]kind.Options, known func(toml.Key) bool, err error) {
	all = map[kind.Name]kind.Options{}
	var tables map[kind.Name]toml.Primitive
	meta, err := toml.Decode(text, &tables)
	for _, k := range ks {
		o := k.Options()
		if o == nil {
			continue
		}
		all[k.Name()] = o
		if table, there := tables[k.Name()]; there && err == nil {
			err = meta.PrimitiveDecode(table, o)
		}
	}
	unknown := map[string]bool{}
	for _, key := range meta.Undecoded() {
		unknown[key.String()] = true
	}
	return all, func(key toml.Key) bool { return all[kind.Name(key[0])] != nil && !unknown[key.String()] }, err
}

// relays reports whether a process of the manifest only relays messages.
func (ks Kinds) relays(m Manifest) bool {
	return !slices.ContainsFunc(m.Kinds, func(name kind.Name) bool { k := ks.Get(name); return k == nil || !k.Relays() })
}

// problems reports every invalid value in the tables of the kinds.
func (ks Kinds) problems(m *Manifest, report func(format string, args ...any)) {
	if len(m.Kinds) == 0 {
		report("kinds is empty: name %s", ks)
	}
	for _, name := range m.Kinds {
		if ks.Get(name) == nil {
			report("kind %q: must be %s", name, ks)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Options)) {
		m.Options[name].Check(report)
	}
}
