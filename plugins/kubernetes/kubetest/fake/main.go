// Command fake runs the cluster of kubetest for flynn plugin dev conform.
package main

import (
	"github.com/flynnhost/flynn/plugins/kubernetes/kubetest"
	"github.com/flynnhost/flynn/sdk/plugintest/fake"
	"github.com/flynnhost/flynn/sdk/plugintest/platform"
)

func main() {
	platform.Main(func(t platform.TB, _ func(fake.Report)) platform.Fake {
		return platform.Fake{Ready: fake.Ready{Settings: map[string]any{"kubeconfig": kubetest.New(t).Kubeconfig()}}}
	})
}
