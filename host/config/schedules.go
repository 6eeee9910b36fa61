package config

// Schedule has an agent answer a text at certain times. It has no rights of its own: it runs in the name of As.
type Schedule struct {
	Name  string `toml:"name"`              // required, unique
	Agent string `toml:"agent" ref:"agent"` // required
	// Cron is an expression of five fields, Every a time span; one of them is required.
	Cron  string   `toml:"cron"`
	Every Duration `toml:"every" range:"0s..8760h"`
	// Timezone is where the clocks are that Cron goes by; empty means this machine's.
	Timezone string `toml:"timezone"`
	Text     string `toml:"text"` // required
	// Deliver is the conversation that gets the answer, "instance:conversation-id"; empty keeps it in the schedule's own.
	Deliver string `toml:"deliver"`
	// As is the owner or member in whose name it runs, "instance:platform-id". Required.
	As string `toml:"as"`
	// CatchUp says how missed runs are made up for.
	CatchUp string `toml:"catch_up" default:"once" oneof:"skip once all"`
	// Jitter puts each run off by up to so much.
	Jitter Duration `toml:"jitter" default:"0s" range:"0s..24h"`
	// Quiet is the answer that is not delivered; empty delivers all.
	Quiet string `toml:"quiet" default:"HEARTBEAT_OK"`
}
