package main

import (
	"testing"

	"github.com/flynnhost/flynn/sdk/plugintest"
)

func TestSettingsSchema(t *testing.T) { plugintest.CheckSchema(t, "settings.schema.json", settings{}) }
