package compose

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/docker/go-units"
	"go.yaml.in/yaml/v3"
)

// names matches the names of services and volumes; services are host names too.
var names = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}$`) })

// project converts the whole file.
func (r *reader) project(src []byte) *Project {
	top, ok := r.document(src)
	if !ok {
		return nil
	}
	var services []entry
	r.named = map[string]bool{}
	for _, e := range r.mapping(top, "") {
		switch {
		case e.key == "services":
			services = r.mapping(e.value, "services")
		case e.key == "volumes":
			r.declared(e.value)
		case e.key == "version" || e.key == "name" || strings.HasPrefix(e.key, "x-"):
			// ignored: a project is named after its session, and version is obsolete
		default:
			r.refuse(e.line, e.key, "it is not supported", hintFor(e.key, "remove it"))
		}
	}
	if len(services) == 0 && len(r.errs) == 0 {
		r.refuse(1, "services", "there is none", "write services, each with an image")
	}
	p := &Project{File: r.file}
	for i, e := range services {
		switch {
		case i >= maxServices:
			r.refuse(e.line, "services."+e.key, fmt.Sprintf("there are more than %d services", maxServices), "remove those that a session does not need")
			return nil
		case !names().MatchString(e.key) || strings.EqualFold(e.key, "localhost"):
			r.refuse(e.line, "services."+e.key, "bad name", "use letters, digits, - and _, with a letter or digit first")
		default:
			p.Services = append(p.Services, r.service(e))
		}
	}
	if len(r.errs) == 0 {
		p.Services = r.ordered(p.Services)
	}
	return p
}

// declared reads the project's volumes, which may have no settings.
func (r *reader) declared(n *yaml.Node) {
	for _, e := range r.mapping(n, "volumes") {
		key := "volumes." + e.key
		if !names().MatchString(e.key) {
			r.refuse(e.line, key, "bad name", "use letters, digits, - and _, with a letter or digit first")
		}
		for _, setting := range r.mapping(e.value, key) {
			r.refuse(setting.line, join(key, setting.key), "it is not supported", "remove it: each session has a volume of its own")
		}
		r.named[e.key] = true
	}
}

// keys maps each supported key of a service to its parser.
func (r *reader) keys() map[string]func(s *Service, n *yaml.Node, key string) {
	return map[string]func(s *Service, n *yaml.Node, key string){
		"image":       func(s *Service, n *yaml.Node, key string) { s.Image, _ = r.text(n, key) },
		"command":     func(s *Service, n *yaml.Node, key string) { s.Command = r.words(n, key) },
		"entrypoint":  func(s *Service, n *yaml.Node, key string) { s.Entrypoint = r.words(n, key) },
		"environment": func(s *Service, n *yaml.Node, key string) { s.Environment = r.environment(n, key) },
		"working_dir": func(s *Service, n *yaml.Node, key string) { s.WorkingDir = r.place(n, key) },
		"user":        func(s *Service, n *yaml.Node, key string) { s.User = r.user(n, key) },
		"depends_on":  func(s *Service, n *yaml.Node, key string) { s.DependsOn = r.dependencies(n, key) },
		"healthcheck": func(s *Service, n *yaml.Node, key string) { s.Health = r.health(n, key) },
		"volumes":     func(s *Service, n *yaml.Node, key string) { r.volumes(s, n, key) },
		"tmpfs":       func(s *Service, n *yaml.Node, key string) { r.tmpfs(s, n, key) },
		"expose":      func(*Service, *yaml.Node, string) {}, // ignored: services reach each other's ports anyway
		"mem_limit":   func(s *Service, n *yaml.Node, key string) { s.MemoryBytes = r.size(n, key, minMemory) },
		"cpus":        func(s *Service, n *yaml.Node, key string) { s.CPUs = r.cpus(n, key) },
		"pids_limit":  func(s *Service, n *yaml.Node, key string) { s.PidsLimit = r.integer(n, key, 1, 32768) },
		"read_only":   func(s *Service, n *yaml.Node, key string) { s.ReadOnly = r.bool(n, key) },
		"init":        func(s *Service, n *yaml.Node, key string) { s.Init = r.bool(n, key) },
	}
}

// minMemory is the engine's own minimum.
const minMemory = 6 << 20

// hintFor returns the hint for a well-known key that is not supported.
func hintFor(key, otherwise string) string {
	hints := map[string]string{
		"ports":          "remove it: commands reach the service by its name, and nobody else does",
		"build":          "build the image first and name it with image",
		"restart":        "remove it: a service that fails is started again at the next command, up to three times",
		"networks":       "remove it: the services of a session reach each other by name",
		"container_name": "remove it: containers are named after their session",
		"hostname":       "remove it: the service's name is its host name",
		"env_file":       "write the variables under environment",
		"secrets":        "remove it: nothing secret belongs into a sandbox",
		"extends":        "write the service out, or use an alias within the file",
		"include":        "write the services into this file",
		"privileged":     "remove it: no container of a sandbox has privileges",
		"cap_add":        "remove it: services have the capabilities that servers need to change their user",
		"devices":        "remove it: no container of a sandbox has devices",
		"network_mode":   "remove it: network of [sandbox] counts for all services",
		"security_opt":   "remove it: every container of a sandbox is confined",
		"profiles":       "remove the key, or the service: every service in the file is started",
		"deploy":         "use mem_limit, cpus and pids_limit",
		"logging":        "remove it: the last output of a service is kept",
	}
	if hint, known := hints[key]; known {
		return hint
	}
	return otherwise
}

func (r *reader) service(e entry) Service {
	s := Service{Name: e.key, Line: e.line}
	at := "services." + e.key
	known := r.keys()
	for _, each := range r.mapping(e.value, at) {
		key := join(at, each.key)
		if read, ok := known[each.key]; ok {
			read(&s, each.value, key)
			continue
		}
		if !strings.HasPrefix(each.key, "x-") {
			r.refuse(each.line, key, "it is not supported", hintFor(each.key, "remove it; supported are "+strings.Join(slices.Sorted(maps.Keys(known)), ", ")))
		}
	}
	if s.Image == "" && !slices.ContainsFunc(r.errs, func(e Error) bool { return e.Key == at+".image" || e.Key == at+".build" }) {
		r.refuse(e.line, at+".image", "it is missing", "name the service's image")
	}
	return s
}

// environment parses a mapping, or a list of NAME=value.
func (r *reader) environment(n *yaml.Node, key string) []string {
	var list []string
	f := r.follow(n)
	if f.Kind == yaml.SequenceNode {
		seen := map[string]bool{}
		for i, variable := range r.texts(n, key) {
			name, _, ok := strings.Cut(variable, "=")
			switch {
			case !ok || name == "":
				r.refuse(f.Line, fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("%q has no value, because the host's environment is not read", variable), "write NAME=value")
			case seen[name]: // programs differ about which one counts
				r.refuse(f.Line, fmt.Sprintf("%s[%d]", key, i), fmt.Sprintf("%s is set twice", name), "keep one")
			}
			seen[name] = true
			list = append(list, variable)
		}
		return list
	}
	for _, e := range r.mapping(n, key) {
		if r.isNull(e.value) {
			r.refuse(e.line, join(key, e.key), "it has no value, because the host's environment is not read", "write one; \"\" is empty")
			continue
		}
		if e.key == "" || strings.ContainsAny(e.key, "=\x00") {
			r.refuse(e.line, key, fmt.Sprintf("%q is not the name of a variable", e.key), "use letters, digits and _")
			continue
		}
		if value, ok := r.text(e.value, join(key, e.key)); ok {
			list = append(list, e.key+"="+value)
		}
	}
	return list
}

// place parses an absolute path inside the container.
func (r *reader) place(n *yaml.Node, key string) string {
	s, ok := r.text(n, key)
	if ok && (!path.IsAbs(s) || path.Clean(s) != s) {
		r.refuse(r.follow(n).Line, key, fmt.Sprintf("%q is not a path inside the container", s), "write a clean absolute path")
	}
	return s
}

// users matches user ids or names, with or without a group.
var users = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.-]*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?$`)
})

func (r *reader) user(n *yaml.Node, key string) string {
	s, ok := r.text(n, key)
	if ok && !users().MatchString(s) {
		r.refuse(r.follow(n).Line, key, fmt.Sprintf("%q is not a user", s), `write one such as "1000:1000"`)
	}
	return s
}

func (r *reader) size(n *yaml.Node, key string, low int64) int64 {
	s, ok := r.text(n, key)
	if !ok {
		return 0
	}
	bytes, err := units.RAMInBytes(s)
	if err != nil || bytes < low || bytes > 1<<50 {
		r.refuse(r.follow(n).Line, key, fmt.Sprintf("%q is not a size of at least %d bytes", s, low), `write one such as "256m"`)
		return 0
	}
	return bytes
}

func (r *reader) cpus(n *yaml.Node, key string) float64 {
	s, ok := r.text(n, key)
	if !ok {
		return 0
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x >= 0.01 && x <= 4096) {
		r.refuse(r.follow(n).Line, key, fmt.Sprintf("%q is not a number of cores", s), "write one such as 0.5")
		return 0
	}
	return x
}
