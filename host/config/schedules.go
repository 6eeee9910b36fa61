package config

// Schedule sends a text to an agent at certain times. It has no rights of its own: it runs in the name of As.
type Schedule struct {
	Name  string `toml:"name"`              // required, unique
	Agent string `toml:"agent" ref:"agent"` // required
	// Cron is an expression of five fields, Every a time span; one of them is required.
	Cron  string   `toml:"cron"`
	Every Duration `toml:"every" range:"0s..8760h"`
	// Timezone is the time zone of Cron; empty means this machine's.
	Timezone string `toml:"timezone"`
	Text     string `toml:"text"` // required
	// Deliver is the conversation that gets the answer, "instance:conversation-id"; empty means the schedule's own.
	Deliver string `toml:"deliver"`
	// As is the owner or member in whose name it runs, "instance:platform-id". Required.
	As string `toml:"as"`
	// CatchUp says which missed runs are made up for.
	CatchUp string `toml:"catch_up" default:"once" oneof:"skip once all"`
	// Jitter bounds the delay of each run.
	Jitter Duration `toml:"jitter" default:"0s" range:"0s..24h"`
	// Quiet is the answer that is not delivered; empty delivers all.
	Quiet string `toml:"quiet" default:"HEARTBEAT_OK"`
}
