package gateway

import "context"

// Channels adds, changes and removes channels.
type Channels interface {
	Channels(ctx context.Context) ([]Channel, error)
	// ChannelKinds returns the plugins that a channel can use.
	ChannelKinds(ctx context.Context) ([]ChannelKind, error)
	// ProveChannel has the platform confirm the account of a channel that is not in the configuration. The error is *Refusal if a value is
	// wrong or the platform does not accept it.
	ProveChannel(ctx context.Context, c NewChannel) (ChannelAccount, error)
	// AddChannel proves a channel and adds it to the configuration. Errors are those of ProveChannel and of an edit.
	AddChannel(ctx context.Context, c NewChannel, by string) (ChannelAccount, error)
	// ChangeChannel changes keys of a channel; nil values unset them.
	ChangeChannel(ctx context.Context, name string, c ChannelChange, by string) error
	// RemoveChannel removes a channel with its secrets and the rules about its senders.
	RemoveChannel(ctx context.Context, name, by string) error
}

// Channel is a channel of the configuration.
type Channel struct {
	Name    string `json:"name"`
	Plugin  string `json:"plugin"`
	Enabled bool   `json:"enabled"`
	Access  string `json:"access"`
	// Senders is what its platform proves about them; empty: not known.
	Senders string `json:"senders"`
	State   string `json:"state"` // "not running" without a host
	Detail  string `json:"detail,omitempty"`
	Login   bool   `json:"login,omitempty"`
	// Settings are the keys of its plugin in flynn.toml.
	Settings map[string]any  `json:"settings,omitempty"`
	Secrets  []ChannelSecret `json:"secrets,omitempty"`
}

// ChannelSecret is a secret of a channel.
type ChannelSecret struct {
	Name string `json:"name"`
	Set  bool   `json:"set"`
	// Stored is the name under which it is stored, for PUT /secrets/{name}; empty if it is a variable or another file.
	Stored string `json:"stored,omitempty"`
}

// ChannelKind is a plugin that a channel can use.
type ChannelKind struct {
	Plugin      string      `json:"plugin"`
	Version     string      `json:"version"`
	Description string      `json:"description"`
	Installed   bool        `json:"installed" doc:"False for one that comes with flynn and is installed at its first use"`
	Fields      []FormField `json:"fields"`
}

// FormField is one value to ask for.
type FormField struct {
	Name     string   `json:"name"`
	Type     string   `json:"type" enum:"text,boolean,integer,number,list,map,named,tables,sandbox,other"`
	Title    string   `json:"title"`
	Help     string   `json:"help,omitempty"`
	Default  string   `json:"default,omitempty"`
	Required bool     `json:"required"`
	Secret   bool     `json:"secret" doc:"It belongs to secrets and not to settings"`
	Host     bool     `json:"host,omitempty" doc:"It is flynn's and not the plugin's: access, queue and so on"`
	Enum     []string `json:"enum,omitempty"`
}

// NewChannel is a channel to add.
type NewChannel struct {
	Name     string            `json:"name,omitempty" maxLength:"40" doc:"By default the plugin's"`
	Plugin   string            `json:"plugin" minLength:"1" maxLength:"40"`
	Settings map[string]any    `json:"settings,omitempty" maxProperties:"100"`
	Secrets  map[string]string `json:"secrets,omitempty" maxProperties:"20"`
}

// ChannelChange is what to change of a channel.
type ChannelChange struct {
	Enabled  *bool          `json:"enabled,omitempty"`
	Settings map[string]any `json:"settings,omitempty" maxProperties:"100" doc:"Null unsets a key"`
}

// ChannelAccount is what a platform said about the account of a channel.
type ChannelAccount struct {
	Name   string `json:"name"`
	Detail string `json:"detail" doc:"What the plugin says, such as @my_bot"`
	// Senders is what the platform proves about senders.
	Senders string `json:"senders"`
	// Login is true if a person has to link the account once the channel runs.
	Login  bool  `json:"login" doc:"The code to be scanned comes once the channel runs"`
	TookMS int64 `json:"took_ms"`
}

// Refusal is the error of values that are wrong, each with its place.
type Refusal struct {
	Text   string
	Faults []Fault
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }
