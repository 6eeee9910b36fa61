package gateway

import (
	"context"

	"github.com/flynnhost/flynn/host/message"
)

// Models shows the models and tests them.
type Models interface {
	// Models lists the tiers, by name.
	Models(ctx context.Context) ([]ModelTier, error)
	// TestModel has the model of a tier answer one word, which the sender's and the host's budgets pay: store.ErrNotFound if there is no such
	// tier, store.ErrConflict while it is being tested or a budget refuses the call.
	TestModel(ctx context.Context, tier string, by message.SenderKey) (ModelTest, error)
}

// ModelTier is the model of one tier, and how it is.
type ModelTier struct {
	ModelStatus
	BaseURL       string   `json:"base_url,omitempty"`
	Key           string   `json:"key,omitempty" doc:"Where its API key comes from, not the key"`
	Fallbacks     []string `json:"fallbacks"`
	ContextWindow int      `json:"context_window,omitempty" doc:"In tokens; absent if it is not known"`
	MaxOutput     int      `json:"max_output_tokens"`
	Timeout       int      `json:"timeout_seconds"`
	Images        bool     `json:"images"`
	Reasoning     string   `json:"reasoning"`
	// Prices are nil if the configuration has none.
	Prices *ModelPrices `json:"prices" doc:"null: not known"`
	Agents []string     `json:"agents" doc:"Whose model it is"`
}

// ModelPrices are US dollars for a million tokens.
type ModelPrices struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
}

// ModelTest is the result of a test.
type ModelTest struct {
	Works   bool     `json:"works"`
	Text    string   `json:"text,omitempty" doc:"The answer"`
	Millis  int64    `json:"millis"`
	Tokens  int      `json:"tokens"`
	CostUSD *float64 `json:"cost_usd" doc:"null: not known"`
	Fault   string   `json:"fault,omitempty" doc:"The class of what is wrong"`
	Detail  string   `json:"detail,omitempty" doc:"What is wrong, and what to try"`
}
