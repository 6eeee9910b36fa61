package gateway

import (
	"context"
	"time"
)

// Configurations shows and edits flynn.toml. Errors of an edit are store.ErrConflict if the file cannot be written or is not the one that the
// client saw, and *NotApplied if it would be wrong.
type Configurations interface {
	Configuration(ctx context.Context) (Configuration, error)
	// ConfigurationKeys returns the keys of a section, such as sandbox; of all sections if it is empty.
	ConfigurationKeys(ctx context.Context, section string) ([]ConfigurationKey, error)
	// CheckConfiguration tries an edit without making it.
	CheckConfiguration(ctx context.Context, e ConfigurationEdit) (ConfigurationCheck, error)
	// EditConfiguration makes an edit: the file is written and in force afterwards, or as before. An edit with Restart is in force, or the file
	// as before, after the restart that it begins.
	EditConfiguration(ctx context.Context, e ConfigurationEdit, by string) (ConfigurationEdited, error)
	// Restart begins to end flynn in order and to start it again with the file, which has to be right.
	Restart(ctx context.Context, by string) (Restarting, error)
	// FormerConfigurations returns the last texts of the file, the latest first.
	FormerConfigurations(ctx context.Context) ([]FormerConfiguration, error)
}

// The states of the file.
const (
	ConfigurationInForce = "in_force"
	ConfigurationRefused = "refused"
	ConfigurationPending = "pending" // it has changed, and is about to be loaded
)

// Configuration is flynn.toml.
type Configuration struct {
	Path       string `json:"path"`
	Generation uint64 `json:"generation" doc:"In force"`
	Version    string `json:"version" doc:"Of the file as it is now; an edit says which one it is about"`
	State      string `json:"state" enum:"in_force,refused,pending"`
	// Refused is why the file is not in force.
	Refused  string                 `json:"refused,omitempty"`
	Problems []ConfigurationProblem `json:"problems" doc:"Why the file is refused, by line"`
	Warnings []ConfigurationProblem `json:"warnings"`
	Text     string                 `json:"text" doc:"The file; <hidden N> stands for what looks like a secret"`
	// ReadOnly is why the host cannot write the file.
	ReadOnly string `json:"read_only,omitempty" doc:"Why the file cannot be edited here; empty if it can"`
	// Undo is the id of the text that an undo brings back.
	Undo string `json:"undo,omitempty" doc:"The former text that an undo brings back"`
}

// ConfigurationProblem is one thing that is wrong with the file, or weak.
type ConfigurationProblem struct {
	Line int    `json:"line" doc:"Counts from 1; 0 is none"`
	Key  string `json:"key,omitempty"`
	Text string `json:"problem"`
	Next string `json:"next,omitempty" doc:"What to do about it"`
}

// ConfigurationKey is one key that the file has or may have.
type ConfigurationKey struct {
	Name      string   `json:"name" doc:"As errors write it"`
	Key       []string `json:"key" doc:"Its segments; an element of a list of tables is [0]"`
	Type      string   `json:"type" enum:"text,boolean,integer,number,list,map,named,tables,sandbox,other"`
	Form      string   `json:"form,omitempty" doc:"How a text is written: size, duration, percent, cpus, reasoning or path"`
	Default   string   `json:"default,omitempty"`
	Enum      []string `json:"enum,omitempty"`
	Names     []string `json:"names,omitempty" doc:"The only names of a map or of named tables"`
	Low       string   `json:"low,omitempty"`
	High      string   `json:"high,omitempty"`
	Meaning   string   `json:"meaning,omitempty"`
	Example   string   `json:"example,omitempty" doc:"A value, as TOML writes it"`
	Reference bool     `json:"reference,omitempty" doc:"It says where a secret is: a file or a variable"`
	Plugin    bool     `json:"plugin,omitempty" doc:"It belongs to a plugin"`
	Set       bool     `json:"set"`
	Value     any      `json:"value,omitempty" doc:"What the file says: for named tables their names, for tables how many"`
	Hidden    bool     `json:"hidden,omitempty" doc:"The value looks like a secret, and is not shown"`
	Line      int      `json:"line,omitempty"`
	New       bool     `json:"new,omitempty" doc:"Of an element that the list of tables does not have yet"`
	// Runs is the value that the running flynn has until its restart.
	Runs *string `json:"runs,omitempty" doc:"What is in force until flynn is restarted, where the file says something else"`
}

// ConfigurationEdit is an edit of the file: by keys, a whole text, or a former text; one of the three.
type ConfigurationEdit struct {
	Version string                `json:"version" minLength:"1" maxLength:"128" doc:"That of the file as the client saw it"`
	Changes []ConfigurationChange `json:"changes,omitempty" maxItems:"500"`
	Text    *string               `json:"text,omitempty" maxLength:"1048576" doc:"The whole file; <hidden N> keeps what it stands for"`
	Former  string                `json:"former,omitempty" maxLength:"64" doc:"The id of a former text to bring back"`
	Restart bool                  `json:"restart,omitempty" doc:"Restart flynn for it; if it does not start, the text before is brought back"`
}

// ConfigurationChange sets a key, or unsets it.
type ConfigurationChange struct {
	Key   []string `json:"key" minItems:"1" maxItems:"16"`
	Value any      `json:"value,omitempty" doc:"A text, number, boolean, list of texts, or table of those"`
	Unset bool     `json:"unset,omitempty" doc:"Remove the key, or the table with all that is in it"`
	Add   bool     `json:"add,omitempty" doc:"Add the table to a list of tables"`
	Move  *int     `json:"move,omitempty" doc:"Move the element of a list of tables to this place, counted from 0"`
}

// ConfigurationCheck is what an edit would do.
type ConfigurationCheck struct {
	OK         bool                   `json:"ok"`
	Problems   []ConfigurationProblem `json:"problems"`
	Warnings   []ConfigurationProblem `json:"warnings"`
	Difference string                 `json:"difference" doc:"Unified; empty if nothing changes"`
	Effects    []ConfigurationEffect  `json:"effects"`
	// Restart is whether the edit needs a restart.
	Restart string `json:"restart" enum:"none,later,now" doc:"later: a part is in force after the next restart; now: the edit can only be made with restart"`
}

// Whether an edit needs a restart.
const (
	RestartNone  = "none"
	RestartLater = "later"
	RestartNow   = "now"
)

// ConfigurationEffect is one part that an edit starts, stops or changes.
type ConfigurationEffect struct {
	Part   string `json:"part" doc:"channels, tools, agents and so on: a section of the file"`
	Name   string `json:"name,omitempty"`
	Change string `json:"change" enum:"starts,stops,restarts,changes,needs_restart" doc:"needs_restart: it is saved, and in force after a restart"`
}

// ConfigurationEdited is the outcome of an edit that is in force.
type ConfigurationEdited struct {
	Generation uint64 `json:"generation"`
	Version    string `json:"version"`
	Difference string `json:"difference"`
	// Hosts are those that have agreed on it, if several share the store and it concerns all.
	Hosts []string `json:"hosts,omitempty" doc:"Those that have agreed on it and put it in force, where several share a database"`
	// Restarting is set if the edit is in force after the restart that has begun.
	Restarting *Restarting `json:"restarting,omitempty"`
}

// Restarting is a restart that has begun.
type Restarting struct {
	// Moved is the address of the console afterwards, if it is another one.
	Moved string `json:"moved,omitempty" doc:"The address of the console afterwards, if it is another one"`
}

// FormerConfiguration is a text that the file had.
type FormerConfiguration struct {
	ID    string    `json:"id"`
	Since time.Time `json:"since"`
	Bytes int64     `json:"bytes"`
	// Now is true for the text of the file as it is, Refused for one that never was in force.
	Now     bool `json:"now,omitempty"`
	Refused bool `json:"refused,omitempty"`
}

// NotApplied is the error of an edit after which the file would be wrong.
type NotApplied struct{ Problems []ConfigurationProblem }

// Error implements error.
func (e *NotApplied) Error() string {
	if len(e.Problems) == 0 {
		return "the file would be wrong"
	}
	p := e.Problems[0]
	text := ""
	if p.Key != "" || p.Line > 0 {
		text = "the file would be wrong: "
	}
	if p.Key != "" {
		text += p.Key + ": "
	}
	text += p.Text
	if p.Next != "" {
		text += " (" + p.Next + ")"
	}
	return text
}

// Secrets stores secrets, each in a file for the host alone. No method returns one.
type Secrets interface {
	Secrets(ctx context.Context) ([]StoredSecret, error)
	// SetSecret stores a secret and has the host take it up; if that fails the one before stays.
	SetSecret(ctx context.Context, name, value, by string) (StoredSecret, error)
}

// StoredSecret is the name of a secret, and where it is.
type StoredSecret struct {
	Name string `json:"name"`
	// File is its path as flynn.toml can name it, for a key that ends in _file.
	File string   `json:"file" doc:"For a key that ends in _file"`
	Used []string `json:"used_by" doc:"The keys that name it"`
	// Generation is that of the configuration with a secret that was just stored.
	Generation uint64 `json:"generation,omitempty" doc:"Of the configuration in force with a secret that was just stored"`
}
