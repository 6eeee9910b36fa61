package gateway

import (
	"context"
)

// Agents shows the agents of the configuration in force.
type Agents interface {
	// Agents lists the agents, by name.
	Agents(ctx context.Context) ([]AgentSummary, error)
	// Agent describes one agent: store.ErrNotFound if there is none.
	Agent(ctx context.Context, name string) (AgentDetail, error)
}

// AgentSummary is an agent in a list.
type AgentSummary struct {
	Name    string `json:"name"`
	Kind    string `json:"kind" doc:"chat, code or cli"`
	Default bool   `json:"default" doc:"It answers where no rule names another"`
	Tier    string `json:"tier,omitempty" doc:"Of its model; an agent of kind cli has a model of its own"`
	Model   string `json:"model,omitempty"`
	Profile string `json:"profile,omitempty" doc:"Its tool profile"`
	Tools   int    `json:"tools" doc:"How many tools it is offered"`
	Sandbox string `json:"sandbox,omitempty" doc:"Absent: its tools run on the host"`
	// Waits are providers of tools that have not come up yet: it answers nobody until then.
	Waits   []string `json:"waits,omitempty" doc:"Providers of tools that it waits for"`
	Missing string   `json:"missing,omitempty" doc:"Why its program cannot run"`
}

// AgentDetail is all about an agent.
type AgentDetail struct {
	AgentSummary
	System       string        `json:"system" doc:"Its system prompt"`
	SystemLength int           `json:"system_length" doc:"In characters"`
	Window       int           `json:"window,omitempty" doc:"Context window of its model, in tokens"`
	Tiers        []string      `json:"tiers" doc:"Tiers that people may choose for it"`
	Offered      []AgentTool   `json:"offered" doc:"The tools that it may call"`
	Where        *AgentSandbox `json:"where,omitempty" doc:"Its sandbox"`
	Approve      string        `json:"approve" doc:"Whether commands on the host wait for a person at a local frontend: shell or none"`
	Elevated     bool          `json:"elevated" doc:"Elevated mode may take its tools out of the sandbox"`
	Delegates    []string      `json:"delegates" doc:"Agents that it may give work to"`
	DelegatedBy  []string      `json:"delegated_by" doc:"Agents that may give work to it"`
	SelectableBy string        `json:"selectable_by,omitempty" doc:"The least role that may choose it in chat; absent: nobody may"`
	Queue        string        `json:"queue,omitempty"`
	Budget       Budget        `json:"budget" doc:"Of today"`
	Memory       AgentMemory   `json:"memory"`
}

// AgentMemory is what an agent may remember.
type AgentMemory struct {
	Tools    []string `json:"tools"`
	Extract  bool     `json:"extract" doc:"Notes are taken from its turns"`
	Recall   bool     `json:"recall" doc:"A turn begins with the notes about its sender that fit"`
	MaxNotes int      `json:"max_notes" doc:"Of each person, and shared"`
}

// AgentTool is a tool of an agent. Without policies, elevated mode and grants, Channel and Local are decided about its calls.
type AgentTool struct {
	Name     string    `json:"name"`
	Effect   string    `json:"effect"`
	Provider string    `json:"provider,omitempty" doc:"The plugin that it is of; its description is foreign"`
	Says     string    `json:"says" doc:"The beginning of its description"`
	Channel  ToolUsual `json:"channel" doc:"Calls in answer to a message over a channel"`
	Local    ToolUsual `json:"local" doc:"Calls in answer to the web page and the terminal"`
}

// ToolUsual is what the configuration decides about the calls of a tool.
type ToolUsual struct {
	Action  string   `json:"action" doc:"run, ask or deny"`
	Where   string   `json:"where"`
	Reasons []string `json:"reasons"`
}

// AgentSandbox is the sandbox of an agent.
type AgentSandbox struct {
	Name      string   `json:"name"`
	Available bool     `json:"available"`
	Detail    string   `json:"detail,omitempty" doc:"Why it is not available"`
	Image     string   `json:"image"`
	Network   string   `json:"network"`
	Allowlist []string `json:"allowlist" doc:"What it may connect to if network is allowlist"`
	Memory    int64    `json:"memory_bytes"`
	Disk      int64    `json:"disk_bytes" doc:"0: no limit"`
	CPUs      float64  `json:"cpus"`
	Pids      int64    `json:"pids"`
	Seconds   int      `json:"timeout_seconds" doc:"Of one command"`
	Runtime   string   `json:"runtime,omitempty"`
}
