package doctor

import (
	"maps"
	"slices"
)

// Code names a kind of finding. It stays the same from release to release; docs/help/doctor.md has a section for each.
type Code string

// The codes.
const (
	ConfigInvalid      Code = "config-invalid"
	ConfigDoubtful     Code = "config-doubtful"
	SecretMissing      Code = "secret-missing"
	FileOpen           Code = "file-open-to-others"
	PluginMissing      Code = "plugin-not-installed"
	PluginChanged      Code = "plugin-changed"
	PluginDown         Code = "plugin-down"
	PolicyFails        Code = "policy-fails"
	EngineSilent       Code = "engine-silent"
	RuntimeMissing     Code = "runtime-missing"
	ImageMissing       Code = "image-missing"
	StoreDamaged       Code = "store-damaged"
	StoreNewer         Code = "store-newer"
	StoreRoom          Code = "store-disk-low"
	StoreTaken         Code = "store-taken"
	ModelUnreachable   Code = "model-unreachable"
	ModelKeyRefused    Code = "model-key-refused"
	ModelUnknown       Code = "model-unknown"
	ModelWindow        Code = "model-window-wrong"
	ClockOff           Code = "clock-off"
	ChannelDown        Code = "channel-down"
	Halted             Code = "halted"
	LogRepeats         Code = "log-repeats"
	SenderUnproved     Code = "sender-not-proved"
	ShellOpen          Code = "shell-open-to-all"
	SandboxFallsBack   Code = "sandbox-falls-back"
	PageOnForeignHosts Code = "page-on-foreign-host"
)

// kind is what all findings of a code have in common.
type kind struct {
	weak bool
	why  string
}

func kinds() map[Code]kind {
	return map[Code]kind{
		ConfigInvalid:      {false, "flynn serve refuses a configuration with errors, and a running host keeps the one before"},
		ConfigDoubtful:     {true, "the configuration is accepted, but does not do what it seems to say"},
		SecretMissing:      {false, "flynn serve does not start without it"},
		FileOpen:           {false, "other users of this machine can read secrets or conversations"},
		PluginMissing:      {false, "its channel or tools do not start"},
		PluginChanged:      {false, "a plugin whose files are not those that were installed is not started"},
		PluginDown:         {false, "its tools are missing"},
		PolicyFails:        {false, "a policy that fails denies every tool call that it decides about"},
		EngineSilent:       {false, "no sandbox can be made"},
		RuntimeMissing:     {false, "sandboxes with this runtime cannot be made"},
		ImageMissing:       {true, "the first command of an agent waits until the image is fetched or built, or fails without a network"},
		StoreDamaged:       {false, "sessions, approvals and messages may be lost"},
		StoreNewer:         {false, "this program refuses a store that a newer one has written"},
		StoreRoom:          {false, "a full disk stops every answer"},
		StoreTaken:         {false, "two hosts cannot use one store, and the commands of this one do not reach the host that does"},
		ModelUnreachable:   {false, "agents of this tier cannot answer"},
		ModelKeyRefused:    {false, "agents of this tier cannot answer"},
		ModelUnknown:       {false, "agents of this tier cannot answer"},
		ModelWindow:        {true, "long conversations are sent whole and refused, because they are compacted too late"},
		ClockOff:           {false, "messages count as too old or from the future, and approvals end at the wrong time"},
		ChannelDown:        {false, "nobody can reach an agent there, and its replies wait"},
		Halted:             {true, "no agent answers until somebody resumes"},
		LogRepeats:         {true, "what repeats does not pass by itself"},
		SenderUnproved:     {true, "whoever takes a name gets the rights of the rule"},
		ShellOpen:          {true, "strangers can have commands run on this machine"},
		SandboxFallsBack:   {true, "when the engine fails, commands of people on channels run on this machine"},
		PageOnForeignHosts: {true, "the page gives the owner's rights, and is reachable under a name of another machine"},
	}
}

// Codes returns all codes, by name.
func Codes() []Code { return slices.Sorted(maps.Keys(kinds())) }
