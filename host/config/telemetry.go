package config

// Telemetry configures the export of traces.
type Telemetry struct {
	// OTLPEndpoint is the base address of an OpenTelemetry collector for the spans of each turn; empty sends nothing.
	OTLPEndpoint string `toml:"otlp_endpoint"`
}
