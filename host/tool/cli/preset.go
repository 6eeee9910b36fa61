package cli

import "slices"

// Preset is a known program: its Config and its API. Each names the version that it was written for.
type Preset struct {
	Config
	API API
	// ProxyEnv is added if the proxy has the key: the program requires one, and gets a placeholder.
	ProxyEnv map[string]string
	// ProxyArgs are inserted after the program's name then.
	ProxyArgs []string
	// LoginHosts are the hosts besides the API that the program needs with a login.
	LoginHosts []string
	// ConfigDir is the folder of its home with the owner's configuration, if the program only reads it.
	ConfigDir string
}

// API is the host of a program's requests, and the header for its key.
type API struct{ Host, Header, Prefix string }

// placeholder replaces a key that a program requires. The proxy replaces it by the key.
const placeholder = "placeholder-the-proxy-has-the-key"

// Presets are the names of the known programs.
func Presets() []string { return []string{"claude", "codex", "gemini", "kiro"} }

// PresetOf returns a new copy of a preset.
func PresetOf(name string) (Preset, bool) {
	switch name {
	case "claude":
		return claude(), true
	case "codex":
		return codex(), true
	case "gemini":
		return gemini(), true
	case "kiro":
		return kiro(), true
	}
	return Preset{}, false
}

// claude is @anthropic-ai/claude-code 2.1.
func claude() Preset {
	base := []string{
		"claude", "--print", "--output-format", "stream-json", "--verbose", "--include-partial-messages",
		"--permission-mode", "bypassPermissions",
	}
	return Preset{
		Config: Config{
			Name: "claude", Prompt: PromptStdin, SessionFrom: SessionGiven, Output: OutputJSONLines,
			Command: append(slices.Clip(base), "--session-id", "{session}"),
			Resume:  append(slices.Clip(base), "--resume", "{session}"),
			Fields: Fields{
				Delta:     []string{"event.delta.text type=stream_event event.delta.type=text_delta"},
				Answer:    []string{"result type=result is_error=false"},
				Error:     []string{"result type=result is_error=true", "errors.* type=result is_error=true"},
				Session:   []string{"session_id type=result is_error=false"},
				Input:     []string{"usage.input_tokens type=result"},
				Output:    []string{"usage.output_tokens type=result"},
				CacheRead: []string{"usage.cache_read_input_tokens type=result"}, CacheWrite: []string{"usage.cache_creation_input_tokens type=result"},
				Cost: []string{"total_cost_usd type=result"},
			},
			Unknown:   []string{"No conversation found with session ID"},
			Env:       map[string]string{"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
			AuthFiles: []string{".claude/.credentials.json"}, AuthSeed: []string{".claude.json", ".claude/settings.json"},
		},
		API:        API{Host: "api.anthropic.com", Header: "X-Api-Key"},
		ProxyEnv:   map[string]string{"ANTHROPIC_API_KEY": placeholder},
		LoginHosts: []string{"console.anthropic.com", "platform.claude.com"},
	}
}

// codex is @openai/codex 0.169. Its own sandbox is off: it needs rights that our containers do not have.
func codex() Preset {
	flags := []string{"--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"}
	return Preset{
		Config: Config{
			Name: "codex", Prompt: PromptStdin, SessionFrom: SessionOutput, Output: OutputJSONLines,
			Command: slices.Concat([]string{"codex", "exec"}, flags, []string{"-"}),
			Resume:  slices.Concat([]string{"codex", "exec", "resume"}, flags, []string{"{session}", "-"}),
			Fields: Fields{
				Delta:   []string{"item.text type=item.completed item.type=agent_message"},
				Answer:  []string{"item.text type=item.completed item.type=agent_message"},
				Error:   []string{"message type=error", "error.message type=turn.failed"},
				Session: []string{"thread_id type=thread.started"},
				Input:   []string{"usage.input_tokens type=turn.completed"}, Output: []string{"usage.output_tokens type=turn.completed"},
				CacheRead: []string{"usage.cached_input_tokens type=turn.completed"}, InputHasCache: true,
			},
			Unknown:   []string{"no rollout found for thread id", "no rollout found for conversation id"},
			Env:       map[string]string{},
			AuthFiles: []string{".codex/auth.json"}, AuthSeed: []string{".codex/config.toml"},
		},
		API:        API{Host: "api.openai.com", Header: "Authorization", Prefix: "Bearer "},
		ProxyEnv:   map[string]string{"OPENAI_API_KEY": placeholder},
		ProxyArgs:  codexProvider(),
		LoginHosts: []string{"chatgpt.com", "auth.openai.com"},
	}
}

// codexProvider is OpenAI's API without features that need a login, and without WebSockets, which the proxy does not carry: the program
// would try them for ten seconds at each run.
func codexProvider() []string {
	return []string{
		"-c", `model_provider="openai-by-key"`,
		"-c", `model_providers.openai-by-key={name="OpenAI",base_url="https://api.openai.com/v1",env_key="OPENAI_API_KEY",wire_api="responses",supports_websockets=false}`,
		"-c", "features.apps=false", "-c", "features.plugins=false", "-c", "analytics.enabled=false",
	}
}

// gemini is @google/gemini-cli 0.61.
func gemini() Preset {
	base := []string{"gemini", "--output-format", "stream-json", "--approval-mode", "yolo", "--skip-trust"}
	return Preset{
		Config: Config{
			Name: "gemini", Prompt: PromptStdin, SessionFrom: SessionGiven, Output: OutputJSONLines,
			Command: append(slices.Clip(base), "--session-id", "{session}"),
			Resume:  append(slices.Clip(base), "--resume", "{session}"),
			Fields: Fields{
				Delta:   []string{"content type=message role=assistant"},
				Error:   []string{"error.message type=result status=error", "message type=error severity=error"},
				Session: []string{"session_id type=init"},
				Input:   []string{"stats.input_tokens type=result"}, Output: []string{"stats.output_tokens type=result"},
				CacheRead: []string{"stats.cached type=result"}, InputHasCache: true,
			},
			Unknown:   []string{"Invalid session identifier", "No previous sessions found for this project"},
			Env:       map[string]string{"GEMINI_CLI_NO_RELAUNCH": "true"},
			AuthFiles: []string{".gemini/oauth_creds.json"}, AuthSeed: []string{".gemini/settings.json", ".gemini/google_accounts.json"},
		},
		API:        API{Host: "generativelanguage.googleapis.com", Header: "X-Goog-Api-Key"},
		ProxyEnv:   map[string]string{"GEMINI_API_KEY": placeholder},
		LoginHosts: []string{"oauth2.googleapis.com", "cloudcode-pa.googleapis.com"},
	}
}

// kiro is Kiro's kiro-cli 2. It prints text only, and keeps its login and its conversations, by folder, in one database. How it uses a key
// is not known well enough for the proxy, so it needs a login.
func kiro() Preset {
	base := []string{"kiro-cli", "chat", "--no-interactive", "--trust-all-tools"}
	return Preset{
		Config: Config{
			Name: "kiro", Prompt: PromptArgument, SessionFrom: SessionLast, Output: OutputText,
			Command: append(slices.Clip(base), "{prompt}"),
			Resume:  append(slices.Clip(base), "--resume", "{prompt}"),
			Unknown: []string{"No saved chat sessions"},
			Env:     map[string]string{},

			AuthDatabase: ".local/share/kiro-cli/data.sqlite3", AuthTable: "auth_kv",
		},
		API: API{Host: "q.us-east-1.amazonaws.com"},
		LoginHosts: []string{
			"oidc.us-east-1.amazonaws.com", "cognito-identity.us-east-1.amazonaws.com", "prod.us-east-1.auth.desktop.kiro.dev",
		},
		ConfigDir: ".kiro",
	}
}
