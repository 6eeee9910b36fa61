// Package providers lists the providers that Flynn is built with.
//
// Start with All. It stands apart from package model so that the words of that package do not
// depend on any vendor's SDK.
package providers

import (
	"github.com/flynnhost/flynn/host/model"
	"github.com/flynnhost/flynn/host/model/anthropic"
	"github.com/flynnhost/flynn/host/model/demo"
	"github.com/flynnhost/flynn/host/model/openai"
)

// All returns the constructor of every provider by its name in flynn.toml.
func All() map[string]model.Constructor {
	return map[string]model.Constructor{
		anthropic.Name: anthropic.New,
		demo.Name:      demo.New,
		openai.Name:    openai.New,
	}
}
