package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/config/edit"
	"github.com/flynnhost/flynn/host/store"
)

// Values are keys of [[schedules]] in flynn.toml with their values as people write them. An empty value removes a key, except for quiet,
// where it delivers every answer.
type Values map[string]string

// Keys are the keys that people set, besides the name.
func Keys() []string {
	return []string{"agent", "cron", "every", "timezone", "text", "as", "deliver", "catch_up", "jitter", "quiet"}
}

// Incomplete is the error of a schedule that lacks one of some keys.
type Incomplete struct {
	Keys []string
	Hint string
}

func (e Incomplete) Error() string { return e.Words("") }

// Words names the keys with a prefix before each, such as that of a flag.
func (e Incomplete) Words(prefix string) string {
	return "needs " + prefix + strings.Join(e.Keys, " or "+prefix) + ", " + e.Hint
}

// Add adds a schedule to the file of a configuration. The default agent runs it, unless another is named, and in the name of the only
// owner. The caller saves the file, which checks the values.
func Add(f *edit.File, c *config.Config, name string, v Values) error {
	if find(c, name) >= 0 {
		return store.Conflict(fmt.Sprintf("there is a schedule %q already: choose another name", name))
	}
	t := edit.Table{"name": name, "agent": c.Routing.DefaultAgent}
	for key, value := range v {
		if value != "" || key == "quiet" {
			t[key] = value
		}
	}
	if (t["cron"] == nil) == (t["every"] == nil) {
		return Incomplete{[]string{"cron", "every"}, `one of them, such as "0 7 * * *" or "30m"`}
	}
	if t["text"] == nil {
		return Incomplete{[]string{"text"}, "which the agent gets each time"}
	}
	if t["as"] == nil {
		if len(c.Access.Owners) != 1 || strings.ContainsAny(c.Access.Owners[0], "*?[{") {
			return Incomplete{[]string{"as"}, "the owner or member in whose name it runs, such as telegram:12345678"}
		}
		t["as"] = c.Access.Owners[0]
	}
	return f.Append(t, "schedules")
}

// Change changes keys of a schedule in the file. A schedule has cron or every: the one that is set replaces the other.
func Change(f *edit.File, c *config.Config, name string, v Values) error {
	i := find(c, name)
	if i < 0 {
		return notFound(name)
	}
	at := func(key string) []string { return []string{"schedules", fmt.Sprintf("[%d]", i), key} }
	for key, other := range map[string]string{"cron": "every", "every": "cron"} {
		if _, both := v[other]; v[key] != "" && !both && f.Has(at(other)...) {
			if err := f.Remove(at(other)...); err != nil {
				return err
			}
		}
	}
	for _, key := range Keys() { // in one order, so that the same change makes the same text
		value, ok := v[key]
		var err error
		switch {
		case !ok:
		case value != "" || key == "quiet":
			err = f.Set(value, at(key)...)
		case f.Has(at(key)...):
			err = f.Remove(at(key)...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Remove removes a schedule from the file.
func Remove(f *edit.File, c *config.Config, name string) error {
	i := find(c, name)
	if i < 0 {
		return notFound(name)
	}
	return f.Remove("schedules", fmt.Sprintf("[%d]", i))
}

func find(c *config.Config, name string) int {
	return slices.IndexFunc(c.Schedules, func(s config.Schedule) bool { return s.Name == name })
}

func notFound(name string) error {
	return store.NotFound(fmt.Sprintf("no schedule %q (run \"flynn schedule list\")", name))
}
