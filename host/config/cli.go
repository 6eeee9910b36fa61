package config

// CLI is the agent CLI of an agent of kind cli, which runs in the session's container. A preset fills in the keys that are not set.
type CLI struct {
	Preset string `toml:"preset" oneof:"claude codex gemini kiro"`
	// Command and Resume are argument vectors for a new session and for one that goes on. In each word {prompt}, {session},
	// {workspace}, {state}, {auth} and {response_file} are replaced.
	Command []string `toml:"command"`
	Resume  []string `toml:"resume"`
	// Prompt is how the program gets the message.
	Prompt string `toml:"prompt" oneof:"stdin argument"`
	// SessionFrom is the source of the name of the program's session.
	SessionFrom string `toml:"session_from" oneof:"given output file last"`
	SessionFile string `toml:"session_file"`
	// Output is the form of the answer; Fields locate the parts of JSON.
	Output string    `toml:"output" oneof:"text json json-lines response_file"`
	Fields CLIFields `toml:"fields"`
	// UnknownSession are texts by which the program reports that it has no such session.
	UnknownSession []string `toml:"unknown_session"`
	// Env are variables of the program; never secrets.
	Env map[string]string `toml:"env"`
	// StateDir is the program's home in the container, a volume of the session.
	StateDir string `toml:"state_dir" default:"/state"`
	// Auth is proxy, which adds the key outside the container, or mount, which copies a login of the owner into the home.
	Auth string `toml:"auth" default:"proxy" oneof:"proxy mount"`
	// APIKey is sent to APIHost in APIHeader, after APIPrefix.
	APIKey     Secret `toml:"-"` // from APIKeyEnv or APIKeyFile; empty while its source is missing
	APIKeyEnv  string `toml:"api_key_env"`
	APIKeyFile string `toml:"api_key_file" is:"path"` // mode 0600 or stricter
	APIHost    string `toml:"api_host"`
	APIHeader  string `toml:"api_header"`
	APIPrefix  string `toml:"api_prefix"`
	// APIAddress is the address of APIHost, for this agent alone: a loopback or private address, with https:// or http://.
	APIAddress string `toml:"api_address"`
	// AuthDir is the folder of the host for auth = "mount"; AuthFiles are copied before each run, AuthSeed only if missing.
	AuthDir   string   `toml:"auth_dir" is:"path"`
	AuthFiles []string `toml:"auth_files"`
	AuthSeed  []string `toml:"auth_seed"`
	// AuthDatabase is a SQLite database of AuthDir that is copied once; later runs refresh AuthTable alone.
	AuthDatabase string `toml:"auth_database"`
	AuthTable    string `toml:"auth_table"`
	// ConfigDir is a folder of the host with the program's configuration, mounted read-only at ConfigTarget.
	ConfigDir    string `toml:"config_dir" is:"path"`
	ConfigTarget string `toml:"config_target"`
	// Allowlist names further hosts that the program may reach, as in a sandbox.
	Allowlist []string `toml:"allowlist"`
	// Folder is a folder of the host that the program works in, below one of the roots of [cli]. Default: the workspace
	Folder string `toml:"folder" is:"path"`
	// FolderByCall lets each conversation of an MCP client name its folder, below the same roots.
	FolderByCall bool `toml:"folder_by_call"`
	// The following keys change the agent's sandbox for the program.
	Image          string  `toml:"image"`
	MemoryLimit    Size    `toml:"memory_limit" default:"2g" range:"64m..1024g"`
	CPULimit       CPUs    `toml:"cpu_limit" default:"2.0" range:"0.05..512"`
	TimeoutSeconds int     `toml:"timeout_seconds" default:"540" range:"10..3600"`
	Mounts         []Mount `toml:"mounts"`
	// DangerouslyOnHost runs the program on the host, for its owner at the local frontends alone. It needs sandbox = false as well.
	DangerouslyOnHost bool `toml:"dangerously_on_host"`
	// DangerouslyForPrograms lets MCP clients with the gateway's token run it on the host as well.
	DangerouslyForPrograms bool `toml:"dangerously_for_programs"`
}

// CLIFields are lists of selectors; see package cli.
type CLIFields struct {
	Delta         []string `toml:"delta"`
	Answer        []string `toml:"answer"`
	Error         []string `toml:"error"`
	Session       []string `toml:"session"`
	Input         []string `toml:"input"`
	Output        []string `toml:"output"`
	CacheRead     []string `toml:"cache_read"`
	CacheWrite    []string `toml:"cache_write"`
	InputHasCache bool     `toml:"input_has_cache"`
	Cost          []string `toml:"cost"` // US dollars
}

// CLIHost has the keys that all agents of kind cli share.
type CLIHost struct {
	// Roots are the folders of the host that contain the folders of agents.
	Roots []string `toml:"roots" is:"path"`
}

// SecretName names the source of the key; "" if it has none.
func (c CLI) SecretName() string {
	if c.APIKeyEnv == "" && c.APIKeyFile == "" {
		return ""
	}
	return SecretName(c.APIKeyEnv, c.APIKeyFile)
}
