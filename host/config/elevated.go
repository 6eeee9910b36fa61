package config

// Elevated lets machine tools of single conversations leave the sandbox for a time. It needs Enabled, a sender among Senders and an agent
// with elevated = true.
type Elevated struct {
	Enabled bool `toml:"enabled"`
	// Senders may begin it: owners, by their exact ids "instance:platform-id".
	Senders []string `toml:"senders"`
	// AllowOn permits the state on, in which commands leave the sandbox without an approval.
	AllowOn bool `toml:"allow_on"`
	// MaxTime bounds how long it holds each time.
	MaxTime Duration `toml:"max_time" default:"1h" range:"1m..12h"`
}
