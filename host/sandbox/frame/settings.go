package frame

// Awaiting as the only argument of the supervisor, in place of a nonce, makes it prepare itself and wait for its Settings.
const Awaiting = "awaiting"

// SettingsFD is the descriptor of the socket, of type SOCK_SEQPACKET, from which the supervisor receives its Settings, in JSON as one message. If
// the socket ends before, so does the supervisor.
const SettingsFD = 4

// MaxSettings bounds the Settings in bytes.
const MaxSettings = 64 << 10

// Settings are what a supervisor learns once its sandbox is complete.
type Settings struct {
	Nonce string `json:"nonce"`
	// Writable are the files and folders that commands and file requests may write to, as far as the kernel supports Landlock.
	Writable []string `json:"writable"`
}
