package tool

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flynnhost/flynn/host/model"
)

func TestRegister(t *testing.T) {
	schema := func(s string) fakeTool {
		return fakeTool{spec: Spec{Name: "a.b", Effect: Read, Schema: json.RawMessage(s)}}
	}
	for _, c := range []struct {
		name string
		tool Tool
		want string // part of the error; "" is none
	}{
		{"plain", named("web.fetch"), ""},
		{"three parts", named("mcp.github.create_issue"), ""},
		{"no schema", schema(""), ""},
		{"taken", named("shell.exec"), "taken"},
		{"one part", named("shell"), "name"},
		{"empty name", named(""), "name"},
		{"upper case family", named("Shell.exec"), "name"},
		{"line break", named("shell.exec\n"), "name"},
		{"star", named("shell.*"), "name"},
		{"no effect", fakeTool{spec: Spec{Name: "a.b"}}, "effect"},
		{"effect of its own", fakeTool{spec: Spec{Name: "a.b", Effect: "harmless"}}, "effect"},
		{"schema is no JSON", schema("{"), "schema"},
		{"schema with a wrong type", schema(`{"type":"strnig"}`), "schema"},
		{"schema reads a file", schema(`{"$ref":"file:///etc/passwd"}`), "stand alone"},
		{"schema calls a server", schema(`{"$ref":"http://127.0.0.1:1/x"}`), "stand alone"},
		{"schema refers to itself", schema(`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object"}}}`), ""},
		{"schema too big", schema(`{"title":"` + strings.Repeat("x", 64<<10) + `"}`), "bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := newRegistry(t, shellTool).Register(c.tool)
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("register: %v, want %q", err, c.want)
			}
		})
	}
}

// A tool with a wrong schema is denied at its first call.
func TestRegisterOwn(t *testing.T) {
	r := newRegistry(t, shellTool)
	broken := fakeTool{spec: Spec{Name: "own.broken", Effect: Read, Schema: json.RawMessage(`{"type":"strnig"}`)}}
	for name, c := range map[string]struct {
		tool Tool
		want string // part of the error
	}{
		"sound":    {named("own.sound"), ""},
		"broken":   {broken, ""},
		"taken":    {shellTool, "taken"},
		"bad name": {named("own"), "name"},
	} {
		if err := r.RegisterOwn(c.tool); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	e, err := NewEnforcer(EnforcerConfig{Registry: r})
	if err != nil {
		t.Fatal(err)
	}
	subject := channelSubject()
	subject.Offered = NewSet("own.sound", "own.broken")
	for name, want := range map[string]bool{"own.sound": false, "own.broken": true} {
		v := e.enforce(t.Context(), subject, model.ToolCall{Name: name})
		if broken := strings.Contains(strings.Join(v.Reasons, "\n"), "schema does not compile"); broken != want || broken && v.Action != Deny {
			t.Errorf("%s: %+v, want a broken schema: %t", name, v, want)
		}
	}
}

func TestReplaceAndClone(t *testing.T) {
	shared := newRegistry(t, shellTool, memoryTool)
	clone := shared.Clone()
	other := shellTool
	other.spec.Description = "in the sandbox"
	if err := clone.Replace(other); err != nil {
		t.Fatal(err)
	}
	if err := clone.Replace(named("web.fetch")); err == nil {
		t.Error("replace of a tool that is not registered: no error")
	}
	if !clone.Remove("memory.read") || clone.Remove("memory.read") {
		t.Error("remove does not report whether the tool was there")
	}
	if got, _ := shared.Get("shell.exec"); got.Spec().Description != "" {
		t.Error("a change of the clone reached the shared registry")
	}
	if _, ok := shared.Get("memory.read"); !ok {
		t.Error("a removal in the clone reached the shared registry")
	}
	if got, _ := clone.Get("shell.exec"); got.Spec().Description != "in the sandbox" {
		t.Error("the clone kept the old tool")
	}
}

func TestListIsSorted(t *testing.T) {
	var names []string
	for _, s := range newRegistry(t, shellTool, memoryTool, fileTool).List() {
		names = append(names, s.Name)
	}
	if want := []string{"file.write", "memory.read", "shell.exec"}; !slices.Equal(names, want) {
		t.Errorf("list %q, want %q", names, want)
	}
}

func TestForModelShowsWhatIsOffered(t *testing.T) {
	r := newRegistry(t, shellTool, memoryTool, fileTool)
	got := r.ForModel(NewSet("shell.exec", "memory.read", "not.there"))
	if len(got) != 2 || got[0].Name != "memory.read" || got[1].Name != "shell.exec" || string(got[1].Schema) != string(shellTool.spec.Schema) {
		t.Errorf("for the model: %+v", got)
	}
}

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	r := newRegistry(t, shellTool)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if err := r.Register(named(fmt.Sprintf("tool.n%d", i))); err != nil {
				t.Error(err)
			}
			r.Clone().List()
		})
	}
	all.Wait()
	if got := len(r.List()); got != 9 {
		t.Errorf("%d tools, want 9", got)
	}
}

func TestOffered(t *testing.T) {
	r := newRegistry(t)
	for _, name := range []string{
		"memory.search", "memory.read", "memory.write", "web.fetch", "file.read", "file.write", "file.edit", "file.list",
		"shell.exec", "process.start", "process.list", "process.output", "process.kill", "mcp.extra",
	} {
		if err := r.Register(named(name)); err != nil {
			t.Fatal(err)
		}
	}
	const (
		minimal   = "memory.read memory.search"
		messaging = "memory.read memory.search memory.write web.fetch"
		coding    = "file.edit file.list file.read file.write memory.read memory.search memory.write process.kill process.list process.output process.start shell.exec web.fetch"
		full      = "file.edit file.list file.read file.write mcp.extra memory.read memory.search memory.write process.kill process.list process.output process.start shell.exec web.fetch"
	)
	for _, c := range []struct {
		name, profile string
		overrides     Overrides
		want          string
	}{
		{"minimal", Minimal, Overrides{}, minimal},
		{"messaging", Messaging, Overrides{}, messaging},
		{"coding", Coding, Overrides{}, coding},
		{"full", Full, Overrides{}, full},
		{"allow extends", Minimal, Overrides{Allow: []string{"mcp.extra"}}, "mcp.extra " + minimal},
		{"allow a family", Minimal, Overrides{Allow: []string{"file.*"}}, "file.edit file.list file.read file.write " + minimal},
		{"deny narrows", Messaging, Overrides{Deny: []string{"web.fetch"}}, "memory.read memory.search memory.write"},
		{"deny a family", Coding, Overrides{Deny: []string{"file.*", "process.*", "shell.exec"}}, messaging},
		{"deny wins over allow", Minimal, Overrides{Allow: []string{"shell.exec"}, Deny: []string{"shell.exec"}}, minimal},
		{"deny a family wins over allow of one", Minimal, Overrides{Allow: []string{"shell.exec"}, Deny: []string{"shell.*"}}, minimal},
		{"deny of a name that only begins alike", Minimal, Overrides{Deny: []string{"mem.*"}}, minimal},
		{"unknown allow gives nothing", Minimal, Overrides{Allow: []string{"no.such"}}, minimal},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := r.Offered(c.profile, c.overrides)
			if err != nil {
				t.Fatal(err)
			}
			if names := strings.Join(got.Names(), " "); names != c.want {
				t.Errorf("offered\n%s, want\n%s", names, c.want)
			}
		})
	}
	if _, err := r.Offered("everything", Overrides{}); err == nil || !strings.Contains(err.Error(), "minimal") {
		t.Errorf("unknown profile: %v, want an error that names the known ones", err)
	}
}

func TestUnknownNames(t *testing.T) {
	r := newRegistry(t, shellTool, memoryTool)
	got := r.UnknownNames(Overrides{Allow: []string{"shell.exce", "shell.exec", "mcp.*"}, Deny: []string{"memory.*", "shell.exce", "web.fetch"}})
	if want := []string{"shell.exce", "mcp.*", "web.fetch"}; !slices.Equal(got, want) {
		t.Errorf("unknown %q, want %q", got, want)
	}
}

func TestSetIntersect(t *testing.T) {
	got := NewSet("a", "b", "c").Intersect(Set{"b": true, "c": false, "d": true})
	if names := got.Names(); !slices.Equal(names, []string{"b"}) {
		t.Errorf("intersection %q, want b", names)
	}
}

// FuzzValidName compares validName with the form as one would write it down.
func FuzzValidName(f *testing.F) {
	form := regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}(\.[a-z0-9][a-zA-Z0-9_-]{0,63}){1,3}$`)
	long := strings.Repeat("a", 64)
	for _, name := range []string{
		"shell.exec", "a.b.c.d", "a.b.c.d.e", "a", "", ".", "a.", ".a", "A.b", "a.B", "a.bB", "aB.b", "9.a", "a.9", "a9.b-_", "_a.b", "a._b",
		long + ".a", long[:32] + "." + long, long[:33] + ".a", "a." + long + "a", "a.\xc3\xa9", "a.b\n",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := validName(name), form.MatchString(name); got != want {
			t.Errorf("validName(%q) is %v, want %v", name, got, want)
		}
	})
}
