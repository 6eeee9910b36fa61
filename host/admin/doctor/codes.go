package doctor

import (
	"maps"
	"slices"

	"github.com/flynnhost/flynn/host/buildinfo"
)

// Area is the part of a Flynn that a finding is about.
type Area string

// The areas.
const (
	Configuration Area = "configuration"
	Store         Area = "store"
	Models        Area = "models"
	Channels      Area = "channels"
	Sandbox       Area = "sandbox"
	Plugins       Area = "plugins"
	Policies      Area = "policies"
	People        Area = "people"
	Files         Area = "files"
	Host          Area = "host"
)

// Areas returns the areas in the order of a report.
func Areas() []Area {
	return []Area{Configuration, Store, Models, Channels, Sandbox, Plugins, Policies, People, Files, Host}
}

// Code names a kind of finding. It stays the same from release to release.
type Code string

// pages is where the pages of this version can be read.
func pages() string {
	version := "main"
	if buildinfo.Released() {
		version = buildinfo.Version()
	}
	return "https://github.com/flynnhost/flynn/tree/" + version + "/docs/help/doctor"
}

// Page is the page of documentation about a code.
func (c Code) Page() string { return "docs/help/doctor/" + string(c) + ".md" }

// The codes.
const (
	ConfigMissing      Code = "config-missing"
	ConfigError        Code = "config-error"
	ConfigWarning      Code = "config-warning"
	ConfigRenamed      Code = "config-renamed-key"
	SecretMissing      Code = "secret-missing"
	StoreDamaged       Code = "store-damaged"
	StoreNewer         Code = "store-newer"
	StoreUnreachable   Code = "store-unreachable"
	StoreRoom          Code = "store-disk-low"
	StoreInUse         Code = "store-in-use"
	BackupOld          Code = "backup-old"
	ModelUnreachable   Code = "model-unreachable"
	ModelKeyRefused    Code = "model-key-refused"
	ModelNoCredit      Code = "model-no-credit"
	ModelUnknown       Code = "model-unknown"
	ModelFails         Code = "model-fails"
	ModelWindow        Code = "model-window-wrong"
	SearchKeyRefused   Code = "search-key-refused"
	SearchChallenged   Code = "search-challenged"
	SearchQuotaSpent   Code = "search-quota-spent"
	SearchEmpty        Code = "search-empty"
	SearchFails        Code = "search-fails"
	ChannelDown        Code = "channel-down"
	ChannelDegraded    Code = "channel-degraded"
	ChannelToken       Code = "channel-token-refused"
	ChannelPrivacy     Code = "channel-privacy-mode"
	WebhookUnreachable Code = "webhook-unreachable"
	EngineSilent       Code = "engine-silent"
	EngineRuntime      Code = "engine-lacks-runtime"
	EngineLacks        Code = "engine-lacks-limit"
	LimitRefused       Code = "sandbox-limit-refused"
	FeatureRefused     Code = "sandbox-feature-refused"
	EngineFeature      Code = "engine-lacks-feature"
	DriverRefused      Code = "sandbox-driver-refused"
	SandboxImage       Code = "sandbox-image-missing"
	SandboxSupervisor  Code = "sandbox-supervisor-missing"
	SandboxFallsBack   Code = "sandbox-falls-back"
	SandboxHostNetwork Code = "sandbox-host-network"
	PluginMissing      Code = "plugin-missing"
	PluginChanged      Code = "plugin-changed"
	PluginDown         Code = "plugin-down"
	PluginLoose        Code = "plugin-not-contained"
	PolicyFails        Code = "policy-fails"
	PolicyLenient      Code = "policy-allows-on-error"
	SenderUnproved     Code = "sender-not-proved"
	ToolsForStrangers  Code = "tools-for-strangers"
	SpendingUnlimited  Code = "spending-unlimited"
	PageUnencrypted    Code = "page-unencrypted"
	FileReadable       Code = "file-readable-by-others"
	FileWritable       Code = "file-writable-by-others"
	ClockWrong         Code = "clock-wrong"
	AddressTaken       Code = "gateway-address-taken"
	VersionDiffers     Code = "version-differs"
	Halted             Code = "halted"
	HostIdle           Code = "host-idle"
	HostUnreached      Code = "host-unreached"
	LogRepeats         Code = "log-repeats"
)

// kind is what all findings of a code have in common.
type kind struct {
	area Area
	weak bool
	why  string
}

func kinds() map[Code]kind {
	return map[Code]kind{
		ConfigMissing:      {Configuration, false, "flynn needs it to start"},
		ConfigError:        {Configuration, false, "flynn serve refuses it, and a running flynn keeps the one before"},
		ConfigWarning:      {Configuration, true, "it is accepted, but does not do what it seems to say"},
		ConfigRenamed:      {Configuration, true, "the next release drops the old name, and refuses the file"},
		SecretMissing:      {Configuration, false, "flynn serve does not start without it"},
		StoreDamaged:       {Store, false, "messages, approvals and sessions may be lost"},
		StoreNewer:         {Store, false, "this flynn refuses a store that a newer one has changed"},
		StoreUnreachable:   {Store, false, "without its database no message is accepted, and flynn does not start"},
		BackupOld:          {Store, false, "what a lost disk takes along is all that came since the last backup"},
		StoreRoom:          {Store, false, "with a full disk no message is accepted and no answer is kept"},
		StoreInUse:         {Store, false, "one store is for one host: a second one does not start"},
		ModelUnreachable:   {Models, false, "agents of this tier cannot answer"},
		ModelKeyRefused:    {Models, false, "agents of this tier cannot answer"},
		ModelNoCredit:      {Models, false, "agents of this tier cannot answer"},
		ModelUnknown:       {Models, false, "agents of this tier cannot answer"},
		ModelFails:         {Models, false, "agents of this tier cannot answer"},
		ModelWindow:        {Models, true, "long conversations are not shortened in time: they are refused, or cut off unseen"},
		SearchKeyRefused:   {Models, false, "web.search passes this service over"},
		SearchChallenged:   {Models, false, "web.search passes this service over"},
		SearchQuotaSpent:   {Models, false, "web.search passes this service over until it is renewed"},
		SearchEmpty:        {Models, true, "agents are told that there is nothing about what they look for"},
		SearchFails:        {Models, false, "web.search passes this service over"},
		ChannelDown:        {Channels, false, "nobody is answered there, and replies wait"},
		ChannelDegraded:    {Channels, false, "people there are not answered, or not in the way that was configured"},
		ChannelToken:       {Channels, false, "nobody is answered there, and replies wait"},
		ChannelPrivacy:     {Channels, true, "groups = \"all\" has no effect: the platform hides most messages from the bot"},
		WebhookUnreachable: {Channels, false, "platforms cannot deliver the messages of channels that use webhooks"},
		EngineSilent:       {Sandbox, false, "no command can run in a sandbox"},
		EngineRuntime:      {Sandbox, false, "sandboxes with this runtime cannot be made"},
		LimitRefused:       {Sandbox, false, "no command can run in a sandbox"},
		FeatureRefused:     {Sandbox, false, "this sandbox is not made"},
		EngineFeature:      {Sandbox, true, "sandboxes are made without it"},
		DriverRefused:      {Sandbox, false, "no command can run in a sandbox"},
		EngineLacks:        {Sandbox, true, "a command can use all that this machine has of it, until its timeout ends it"},
		SandboxImage:       {Sandbox, true, "the first command waits until it is fetched, and fails without a network"},
		SandboxSupervisor:  {Sandbox, false, "no sandbox can start without it"},
		SandboxFallsBack:   {Sandbox, true, "when the engine fails, commands run on this machine, with an approval each"},
		SandboxHostNetwork: {Sandbox, true, "commands in a sandbox reach all that listens on this machine, its databases included"},
		PluginMissing:      {Plugins, false, "its channel or tools do not start"},
		PluginChanged:      {Plugins, false, "a plugin whose files were changed is not started"},
		PluginDown:         {Plugins, false, "agents do not have its tools"},
		PluginLoose:        {Plugins, true, "a plugin that is taken over can do what flynn's user can"},
		PolicyFails:        {Policies, false, "a tool policy that fails denies every call that it decides about"},
		PolicyLenient:      {Policies, true, "a call that makes the policy fail gets past it"},
		SenderUnproved:     {People, true, "anybody who takes the name has the rights, or the rule has no effect"},
		ToolsForStrangers:  {People, true, "one tired approval lets strangers run commands on this machine"},
		SpendingUnlimited:  {People, true, "strangers spend your money without an end"},
		PageUnencrypted:    {People, true, "the page gives the owner's rights, and the network between can read its token"},
		FileReadable:       {Files, false, "other users of this machine can read secrets or conversations"},
		FileWritable:       {Files, false, "other users of this machine can change what flynn does"},
		ClockWrong:         {Host, false, "messages count as too old, schedules run at wrong times, approvals end early or late"},
		AddressTaken:       {Host, false, "flynn serve cannot listen there"},
		VersionDiffers:     {Host, true, "what this program says about the running flynn may not be true"},
		Halted:             {Host, false, "no agent answers until somebody resumes"},
		HostIdle:           {Host, false, "the other hosts that share its store do all the work"},
		HostUnreached:      {Host, true, "what that host answers is shown here when it is written, and not before"},
		LogRepeats:         {Host, true, "a warning that repeats does not pass by itself"},
	}
}

// Codes returns all codes, by name.
func Codes() []Code { return slices.Sorted(maps.Keys(kinds())) }
