package setup

// Maker is somebody whose models Flynn can use.
type Maker struct {
	Name     string // of --model-provider
	Title    string
	Provider string // of flynn.toml
	BaseURL  string // empty: the provider's own
	KeyEnv   string // the variable that holds a key by custom; empty: no key is needed
	Model    string // to begin with; empty: the server's list says
	// Ask is true where people have to say where the server is.
	Ask bool
}

// Demo is the maker of the demo model.
const Demo = "demo"

// Makers returns the makers that can be chosen.
func Makers() []Maker {
	return []Maker{
		{Name: "anthropic", Title: "Anthropic (Claude)", Provider: "anthropic", KeyEnv: "ANTHROPIC_API_KEY", Model: "claude-sonnet-4-5"},
		{Name: "openai", Title: "OpenAI (GPT)", Provider: "openai", KeyEnv: "OPENAI_API_KEY", Model: "gpt-5-mini"},
		{Name: "openrouter", Title: "OpenRouter", Provider: "openai", BaseURL: "https://openrouter.ai/api/v1",
			KeyEnv: "OPENROUTER_API_KEY", Model: "openrouter/auto"},
		{Name: "gemini", Title: "Google (Gemini)", Provider: "openai", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai",
			KeyEnv: "GEMINI_API_KEY", Model: "gemini-2.5-flash"},
		{Name: "mistral", Title: "Mistral", Provider: "openai", BaseURL: "https://api.mistral.ai/v1", KeyEnv: "MISTRAL_API_KEY", Model: "mistral-large-latest"},
		{Name: "deepseek", Title: "DeepSeek", Provider: "openai", BaseURL: "https://api.deepseek.com/v1", KeyEnv: "DEEPSEEK_API_KEY", Model: "deepseek-chat"},
		{Name: "groq", Title: "Groq", Provider: "openai", BaseURL: "https://api.groq.com/openai/v1", KeyEnv: "GROQ_API_KEY", Model: "llama-3.3-70b-versatile"},
		{Name: "ollama", Title: "Ollama on this machine", Provider: "openai", BaseURL: "http://127.0.0.1:11434/v1"},
		{Name: "server", Title: "another server with OpenAI's API", Provider: "openai", Ask: true},
		{Name: Demo, Title: "the demo model: no key, no network, no thoughts", Provider: Demo},
	}
}

func makerNamed(name string) (Maker, bool) {
	for _, m := range Makers() {
		if m.Name == name {
			return m, true
		}
	}
	return Maker{}, false
}

// MakerNames returns the names that --model-provider takes.
func MakerNames() []string {
	var names []string
	for _, m := range Makers() {
		names = append(names, m.Name)
	}
	return names
}
