package config

// Delegation bounds the work that agents give each other; who may ask whom is Agent.Delegates.
type Delegation struct {
	// MaxDepth is how long a chain of agents may get, the one that was spoken to not counted.
	MaxDepth int `toml:"max_depth" default:"3" range:"1..16"`
	// MaxFanout is how often one turn may delegate.
	MaxFanout int `toml:"max_fanout" default:"4" range:"1..64"`
	// Timeout ends a delegated turn; time in which a person thinks does not count.
	Timeout Duration `toml:"timeout" default:"10m" range:"1s..24h"`
}
