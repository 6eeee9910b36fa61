package config

// CLI is the program of an agent of kind cli: another agent's command line, which runs in the session's container. A preset fills in
// what is not written.
type CLI struct {
	Preset string `toml:"preset" oneof:"claude codex gemini kiro"`
	// Command and Resume are argument vectors for a new session and for one that goes on. In each word {prompt}, {session},
	// {workspace}, {state}, {auth} and {response_file} are replaced.
	Command []string `toml:"command"`
	Resume  []string `toml:"resume"`
	// Prompt is where the message goes.
	Prompt string `toml:"prompt" oneof:"stdin argument"`
	// SessionFrom says where the name of the program's session comes from.
	SessionFrom string `toml:"session_from" oneof:"given output file last"`
	SessionFile string `toml:"session_file"`
	// Output is how the answer comes, and Fields where in JSON things are.
	Output string    `toml:"output" oneof:"text json json-lines response_file"`
	Fields CLIFields `toml:"fields"`
	// UnknownSession are texts by which the program says that it has no such session.
	UnknownSession []string `toml:"unknown_session"`
	// Env are variables of the program; never secrets.
	Env map[string]string `toml:"env"`
	// StateDir is the program's home inside, which is a volume of the session.
	StateDir string `toml:"state_dir" default:"/state"`
	// Auth is proxy, which adds the key outside, or mount, which copies a login of its owner's into the home.
	Auth string `toml:"auth" default:"proxy" oneof:"proxy mount"`
	// APIKey goes to APIHost in APIHeader behind APIPrefix.
	APIKey     Secret `toml:"-"` // from APIKeyEnv or APIKeyFile; empty while its source is missing
	APIKeyEnv  string `toml:"api_key_env"`
	APIKeyFile string `toml:"api_key_file" is:"path"` // mode 0600 or stricter
	APIHost    string `toml:"api_host"`
	APIHeader  string `toml:"api_header"`
	APIPrefix  string `toml:"api_prefix"`
	// APIAddress is where APIHost is, for this agent alone: one address of loopback or of a private network, with https:// or http://.
	APIAddress string `toml:"api_address"`
	// AuthDir is the folder of the host for auth = "mount"; AuthFiles are copied each time, AuthSeed where there is none yet.
	AuthDir   string   `toml:"auth_dir" is:"path"`
	AuthFiles []string `toml:"auth_files"`
	AuthSeed  []string `toml:"auth_seed"`
	// AuthDatabase is a SQLite database of AuthDir that is copied once; later runs refresh AuthTable alone.
	AuthDatabase string `toml:"auth_database"`
	AuthTable    string `toml:"auth_table"`
	// ConfigDir is a folder of the host with the program's configuration, mounted read-only at ConfigTarget.
	ConfigDir    string `toml:"config_dir" is:"path"`
	ConfigTarget string `toml:"config_target"`
	// Allowlist is what the program may reach besides, as in a sandbox.
	Allowlist []string `toml:"allowlist"`
	// Folder is a folder of the host that the program works in, below one of the roots of [cli]; without it, it is the workspace.
	Folder string `toml:"folder" is:"path"`
	// FolderByCall lets each conversation that a program begins over MCP name its folder, below the same roots.
	FolderByCall bool `toml:"folder_by_call"`
	// The rest changes the agent's sandbox for its program.
	Image          string  `toml:"image"`
	MemoryLimit    Size    `toml:"memory_limit" default:"2g" range:"64m..1024g"`
	CPULimit       CPUs    `toml:"cpu_limit" default:"2.0" range:"0.05..512"`
	TimeoutSeconds int     `toml:"timeout_seconds" default:"540" range:"10..3600"`
	Mounts         []Mount `toml:"mounts"`
	// DangerouslyOnHost runs the program on the host, for its owner at the local doors alone. It needs sandbox = false as well.
	DangerouslyOnHost bool `toml:"dangerously_on_host"`
	// DangerouslyForPrograms lets what has the gateway's token run it on the host as well, over MCP.
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

// CLIHost is what all agents of kind cli share.
type CLIHost struct {
	// Roots are the folders of the host that the folder of an agent lies below.
	Roots []string `toml:"roots" is:"path"`
}

// SecretName names where the key comes from; empty if it has no source.
func (c CLI) SecretName() string {
	if c.APIKeyEnv == "" && c.APIKeyFile == "" {
		return ""
	}
	return SecretName(c.APIKeyEnv, c.APIKeyFile)
}
