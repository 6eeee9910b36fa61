package config

// Telemetry tells others what Flynn does.
type Telemetry struct {
	// OTLPEndpoint is the base address of an OpenTelemetry collector that is sent the spans of each turn; empty sends nothing.
	OTLPEndpoint string `toml:"otlp_endpoint"`
}
