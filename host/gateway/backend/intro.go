package backend

import (
	"github.com/flynnhost/flynn/host/config"
	"github.com/flynnhost/flynn/host/gateway"
	"github.com/flynnhost/flynn/host/message"
	"github.com/flynnhost/flynn/host/model/demo"
)

// Intro implements gateway.Reporter: what the owner may try on a local frontend, by the agent that [routing] names for it.
func (s Status) Intro(channel string, owner message.SenderKey) gateway.Intro {
	now := s.Current()
	to, ok := now.Table.Resolve(channel, owner)
	if !ok || now.Agents[to.Agent] == nil {
		return gateway.Intro{Notice: "No agent answers here. Write default_agent below [routing] in " + now.Config.Path + "."}
	}
	a := now.Config.Agents[to.Agent]
	shell, notes := now.Agents[to.Agent].Offered.Has("shell.exec"), now.Agents[to.Agent].Offered.Has("memory.write")
	if a.Kind != "cli" && now.Config.Models[a.ModelTier].Provider == demo.Name {
		return gateway.Intro{Notice: demoNotice(now.Config.Path, a.ModelTier), Try: demoTries(a.Kind, shell)}
	}
	return gateway.Intro{Try: tries(shell || a.Kind != "chat", notes)}
}

func demoNotice(path, tier string) string {
	return "This is the demo model. It repeats what it hears, and calls tools only as told below. For a real model run: " +
		config.CommandLine(path, "model add "+tier)
}

var statusTry = gateway.Suggestion{Text: "/status", Does: "shows who answers here, and with which model"}

func demoTries(kind string, shell bool) []gateway.Suggestion {
	call := gateway.Suggestion{Text: "!stream 300 one word after the other", Does: "comes back word by word"}
	switch {
	case kind == "code":
		call = gateway.Suggestion{Text: "!py print(6 * 7)", Does: "runs a program in a container of its own"}
	case shell:
		call = gateway.Suggestion{Text: "!sh uname -a", Does: "runs a command in the sandbox, or on this machine once you approve it"}
	}
	return []gateway.Suggestion{{Text: "hello", Does: "comes back as the answer"}, call, statusTry}
}

func tries(runs, notes bool) []gateway.Suggestion {
	second := gateway.Suggestion{Text: "Explain in two sentences what a sandbox is.", Does: "asks the model"}
	switch {
	case runs:
		second = gateway.Suggestion{Text: "Run uname -a and tell me what it says.", Does: "has the agent run a command"}
	case notes:
		second = gateway.Suggestion{Text: "Remember that I like short answers.", Does: "has the agent keep a note about you"}
	}
	return []gateway.Suggestion{{Text: "What can you do here?", Does: "has the agent list its tools"}, second, statusTry}
}
