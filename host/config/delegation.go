package config

// Delegation bounds the work that agents delegate to each other; see also Agent.Delegates.
type Delegation struct {
	// MaxDepth bounds the delegation chain; the first agent does not count.
	MaxDepth int `toml:"max_depth" default:"3" range:"1..16"`
	// MaxFanout is how often one turn may delegate.
	MaxFanout int `toml:"max_fanout" default:"4" range:"1..64"`
	// Timeout ends a delegated turn; the time that a person takes for an approval does not count.
	Timeout Duration `toml:"timeout" default:"10m" range:"1s..24h"`
}
