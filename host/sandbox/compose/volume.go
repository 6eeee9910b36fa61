package compose

import (
	"fmt"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// volumes parses the mounts of a service, in the short form (source:target, with :ro or :rw) or the long one.
func (r *reader) volumes(s *Service, n *yaml.Node, key string) {
	f := r.follow(n)
	if f.Kind != yaml.SequenceNode {
		r.refuse(f.Line, key, "it is not a list", "write its elements below it, each after a dash")
		return
	}
	for i, each := range f.Content {
		at := fmt.Sprintf("%s[%d]", key, i)
		m, ok := r.mount(each, at)
		if !ok || r.budget < 0 {
			continue
		}
		r.add(s, m, at)
	}
}

// mounted is one element of volumes in its long form.
type mounted struct {
	kind, source, target string
	readOnly             bool
	bytes                int64
	line                 int
}

func (r *reader) mount(n *yaml.Node, key string) (mounted, bool) {
	f := r.follow(n)
	if f.Kind == yaml.ScalarNode {
		return r.shortMount(f, key)
	}
	m := mounted{kind: "volume", line: f.Line}
	before := len(r.errs)
	for _, e := range r.mapping(f, key) {
		at := join(key, e.key)
		switch e.key {
		case "type":
			m.kind, _ = r.text(e.value, at)
		case "source":
			m.source, _ = r.text(e.value, at)
		case "target":
			m.target, _ = r.text(e.value, at)
		case "read_only":
			m.readOnly = r.bool(e.value, at)
		case "tmpfs":
			for _, setting := range r.mapping(e.value, at) {
				if setting.key != "size" {
					r.refuse(setting.line, join(at, setting.key), "it is not supported", "remove it")
					continue
				}
				m.bytes = r.size(setting.value, join(at, "size"), 4<<10)
			}
		default:
			r.refuse(e.line, at, "it is not supported", "remove it; supported are read_only, source, target, tmpfs, type")
		}
	}
	return m, len(r.errs) == before
}

// shortMount parses the short form. A source that looks like a path is a bind mount.
func (r *reader) shortMount(n *yaml.Node, key string) (mounted, bool) {
	text, ok := r.text(n, key)
	if !ok {
		return mounted{}, false
	}
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" {
		r.refuse(n.Line, key, fmt.Sprintf("%q is not a volume", text), "write NAME:TARGET, with :ro or without, or the long form with source, target and read_only")
		return mounted{}, false
	}
	m := mounted{kind: "volume", source: parts[0], target: parts[1], readOnly: len(parts) == 3 && parts[2] == "ro", line: n.Line}
	if strings.ContainsAny(m.source, "/.~") {
		m.kind = "bind"
	}
	return m, true
}

// defaultTmpfs bounds a tmpfs for which the file gives no size.
const defaultTmpfs = 64 << 20

func (r *reader) add(s *Service, m mounted, key string) {
	switch {
	case m.target == "":
		r.refuse(m.line, key, "it has no target", "write where the service finds it")
	case m.kind == "tmpfs" && m.source == "":
		if m.bytes == 0 {
			m.bytes = defaultTmpfs
		}
		s.Tmpfs = append(s.Tmpfs, Tmpfs{Target: m.target, Bytes: m.bytes})
	case m.bytes != 0 || m.kind == "tmpfs":
		r.refuse(m.line, key, "a folder in memory has a size and no source", "keep one of them")
	case m.kind == "bind":
		s.Binds = append(s.Binds, Bind{Source: r.path(m.source), Target: m.target, ReadOnly: m.readOnly, Line: m.line})
	case m.kind != "volume":
		r.refuse(m.line, key, fmt.Sprintf("no such type %q", m.kind), "write volume, bind or tmpfs")
	case m.source == "":
		r.refuse(m.line, key, "the volume has no name", "name it, and list it under volumes of the file")
	case !r.named[m.source]:
		r.refuse(m.line, key, fmt.Sprintf("no volume %q", m.source), "list it under volumes of the file")
	default:
		s.Volumes = append(s.Volumes, Volume{Name: m.source, Target: m.target, ReadOnly: m.readOnly})
	}
}

// path makes a source absolute. "~" is refused, because the file may come from anybody.
func (r *reader) path(source string) string {
	if filepath.IsAbs(source) {
		return filepath.Clean(source)
	}
	folder, err := filepath.Abs(filepath.Dir(r.file))
	if err != nil {
		return source // relative, so it is refused
	}
	return filepath.Join(folder, source)
}

// tmpfs parses the short list of folders in memory.
func (r *reader) tmpfs(s *Service, n *yaml.Node, key string) {
	for i, text := range r.list(n, key) {
		target, options, has := strings.Cut(text, ":")
		t := Tmpfs{Target: target, Bytes: defaultTmpfs}
		if size, is := strings.CutPrefix(options, "size="); has && is {
			t.Bytes = r.size(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: size, Line: n.Line}, fmt.Sprintf("%s[%d]", key, i), 4<<10)
		} else if has {
			r.refuse(n.Line, fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("%q has options that are not supported", text), "keep size= only")
		}
		s.Tmpfs = append(s.Tmpfs, t)
	}
}
